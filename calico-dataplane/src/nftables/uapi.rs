//! Numbers of `linux/netfilter/nf_tables.h` and of the `nft` program's own conventions.

use calico_core::table::Table;

/// Name of our tables, one for each family (`decisions.md` 13: never upstream's `calico`).
pub(crate) const TABLE: &str = "calico-dataplane";

/// Address family of a table: `NFPROTO_INET` (IPv4 and IPv6 in one), `NFPROTO_ARP`.
pub(crate) const fn family(table: Table) -> u8 {
    match table {
        Table::Arp => 3,
        _ => 1,
    }
}

/// The table of ours that a family's can be.
pub(crate) fn table_of(number: u8) -> Option<Table> {
    Table::ALL.into_iter().find(|table| family(*table) == number)
}

/// How a table is called in messages to people.
pub(crate) const fn title(table: Table) -> &'static str {
    match table {
        Table::Arp => "table arp calico-dataplane",
        _ => "table inet calico-dataplane",
    }
}

const SUBSYSTEM: u16 = 10 << 8;
pub(crate) const BATCH_BEGIN: u16 = 16;
pub(crate) const BATCH_END: u16 = 17;
/// Resource id of a batch: the subsystem, in network order.
pub(crate) const BATCH_SUBSYSTEM: u16 = 10;

pub(crate) const NEW_TABLE: u16 = SUBSYSTEM;
pub(crate) const GET_TABLE: u16 = SUBSYSTEM | 1;
pub(crate) const NEW_CHAIN: u16 = SUBSYSTEM | 3;
pub(crate) const GET_CHAIN: u16 = SUBSYSTEM | 4;
pub(crate) const DEL_CHAIN: u16 = SUBSYSTEM | 5;
pub(crate) const NEW_RULE: u16 = SUBSYSTEM | 6;
pub(crate) const GET_RULE: u16 = SUBSYSTEM | 7;
pub(crate) const DEL_RULE: u16 = SUBSYSTEM | 8;
pub(crate) const NEW_SET: u16 = SUBSYSTEM | 9;
pub(crate) const GET_SET: u16 = SUBSYSTEM | 10;
pub(crate) const DEL_SET: u16 = SUBSYSTEM | 11;
pub(crate) const NEW_ELEMENT: u16 = SUBSYSTEM | 12;
pub(crate) const GET_ELEMENT: u16 = SUBSYSTEM | 13;
pub(crate) const DEL_ELEMENT: u16 = SUBSYSTEM | 14;
pub(crate) const NEW_GENERATION: u16 = SUBSYSTEM | 15;
pub(crate) const GET_GENERATION: u16 = SUBSYSTEM | 16;
/// Removals for which absence is no error; since Linux 6.3.
pub(crate) const DESTROY_TABLE: u16 = SUBSYSTEM | 26;
pub(crate) const DESTROY_CHAIN: u16 = SUBSYSTEM | 27;
pub(crate) const DESTROY_RULE: u16 = SUBSYSTEM | 28;
pub(crate) const DESTROY_SET: u16 = SUBSYSTEM | 29;
pub(crate) const DESTROY_ELEMENT: u16 = SUBSYSTEM | 30;

pub(crate) mod table {
    pub(crate) const NAME: u16 = 1;
    pub(crate) const FLAGS: u16 = 2;
    /// Flag: the chains of the table do not hang at their hooks.
    pub(crate) const DORMANT: u32 = 1;
}

pub(crate) mod generation {
    pub(crate) const ID: u16 = 1;
}

pub(crate) mod chain {
    pub(crate) const TABLE: u16 = 1;
    pub(crate) const NAME: u16 = 3;
    pub(crate) const HOOK: u16 = 4;
    pub(crate) const POLICY: u16 = 5;
    /// How many rules are in it, and how many rules and elements lead to it.
    pub(crate) const USE: u16 = 6;
    pub(crate) const TYPE: u16 = 7;
    pub(crate) const HOOK_NUMBER: u16 = 1;
    pub(crate) const HOOK_PRIORITY: u16 = 2;
    /// `NF_ACCEPT`, as chain policy and as verdict.
    pub(crate) const ACCEPT: u32 = 1;
}

pub(crate) mod rule {
    pub(crate) const TABLE: u16 = 1;
    pub(crate) const CHAIN: u16 = 2;
    pub(crate) const EXPRESSIONS: u16 = 4;
    pub(crate) const USERDATA: u16 = 7;
}

/// `NFTA_LIST_ELEM`.
pub(crate) const LIST_ITEM: u16 = 1;

pub(crate) mod set {
    pub(crate) const TABLE: u16 = 1;
    pub(crate) const NAME: u16 = 2;
    pub(crate) const FLAGS: u16 = 3;
    pub(crate) const KEY_TYPE: u16 = 4;
    pub(crate) const KEY_LENGTH: u16 = 5;
    pub(crate) const DATA_TYPE: u16 = 6;
    pub(crate) const DATA_LENGTH: u16 = 7;
    pub(crate) const DESCRIPTION: u16 = 9;
    pub(crate) const ID: u16 = 10;
    pub(crate) const USERDATA: u16 = 13;
    pub(crate) const DESCRIPTION_SIZE: u16 = 1;

    pub(crate) const ANONYMOUS: u32 = 1;
    pub(crate) const CONSTANT: u32 = 2;
    pub(crate) const INTERVAL: u32 = 4;
    pub(crate) const MAP: u32 = 8;
    /// `NFT_DATA_VERDICT`.
    pub(crate) const VERDICTS: u32 = 0xffff_ff00;
}

pub(crate) mod element {
    pub(crate) const LIST_TABLE: u16 = 1;
    pub(crate) const LIST_SET: u16 = 2;
    pub(crate) const LIST_ELEMENTS: u16 = 3;
    pub(crate) const LIST_SET_ID: u16 = 4;

    pub(crate) const KEY: u16 = 1;
    pub(crate) const DATA: u16 = 2;
    pub(crate) const FLAGS: u16 = 3;
    /// `NFT_SET_ELEM_INTERVAL_END`.
    pub(crate) const INTERVAL_END: u32 = 1;
}

pub(crate) mod data {
    pub(crate) const VALUE: u16 = 1;
    pub(crate) const VERDICT: u16 = 2;
    pub(crate) const VERDICT_CODE: u16 = 1;
    pub(crate) const VERDICT_CHAIN: u16 = 2;

    pub(crate) const DROP: i32 = 0;
    pub(crate) const ACCEPT: i32 = 1;
    pub(crate) const JUMP: i32 = -3;
    pub(crate) const GOTO: i32 = -4;
    pub(crate) const RETURN: i32 = -5;
}
