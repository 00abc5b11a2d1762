//! Stored text straight to typed objects: the fast way for kinds of which a cluster has hundreds of thousands.
//!
//! What comes in is the text of a document; what goes out is the object that [`Resource::decode`] would make of its JSON, or nothing
//! where somebody has to look more closely. It must never be the other way round, so everything that the slow way treats specially
//! is an error here: a list where a mapping belongs (serde would take it for a struct), a number that was perhaps rounded, also in
//! fields that nobody knows. Bad text, bad values, nulls and what is nested too deep are errors of serde's own.

use core::fmt;

use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, Error, IgnoredAny, MapAccess, SeqAccess,
    VariantAccess, Visitor,
};
use serde_json::de::SliceRead;

use super::check::{self, Strictness};
use super::{Kind, Resource};

impl Resource {
    /// Reads the text of a stored document, if it is in order throughout and of a kind that this is for: the object that
    /// [`decode`](Self::decode) makes of the same, in a fraction of the time. That none comes says nothing about the text.
    pub fn decode_text(kind: Kind, text: &[u8]) -> Option<Self> {
        fn of<T: DeserializeOwned>(text: &[u8], wrap: fn(T) -> Resource) -> Option<Resource> {
            let mut json = serde_json::Deserializer::new(SliceRead::new(text));
            let object = T::deserialize(Plain(&mut json)).ok()?;
            json.end().ok().map(|()| wrap(object))
        }
        // Kinds without rules or a name of their own in an annotation: those are looked at as a whole.
        let resource = match kind {
            Kind::WorkloadEndpoint => of(text, Self::WorkloadEndpoint),
            Kind::Node => of(text, Self::Node),
            Kind::IpamBlock => of(text, Self::IpamBlock),
            Kind::BlockAffinity => of(text, Self::BlockAffinity),
            _ => None,
        }?;
        check::all(&resource, Strictness::Stored).is_ok().then_some(resource)
    }
}

/// Reads only what needs no second look. All that is read through it is, to any depth.
struct Plain<T>(T);

macro_rules! forward {
    ($($method:ident($($argument:ident: $type:ty),*);)*) => {$(
        fn $method<V: Visitor<'de>>(self, $($argument: $type,)* visitor: V) -> Result<V::Value, D::Error> {
            self.0.$method($($argument,)* Plain(visitor))
        }
    )*};
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Plain<D> {
    type Error = D::Error;

    forward! {
        deserialize_any();
        deserialize_bool();
        deserialize_i8();
        deserialize_i16();
        deserialize_i32();
        deserialize_i64();
        deserialize_u8();
        deserialize_u16();
        deserialize_u32();
        deserialize_u64();
        deserialize_f32();
        deserialize_f64();
        deserialize_char();
        deserialize_str();
        deserialize_string();
        deserialize_bytes();
        deserialize_byte_buf();
        deserialize_option();
        deserialize_unit();
        deserialize_unit_struct(name: &'static str);
        deserialize_newtype_struct(name: &'static str);
        deserialize_seq();
        deserialize_tuple(length: usize);
        deserialize_tuple_struct(name: &'static str, length: usize);
        deserialize_map();
        deserialize_enum(name: &'static str, variants: &'static [&'static str]);
        deserialize_identifier();
    }

    /// A mapping, never a list.
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_map(Plain(visitor))
    }

    /// What nobody knows is looked through all the same.
    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.0.deserialize_any(Plain(IgnoredAny))?;
        visitor.visit_unit()
    }

    fn is_human_readable(&self) -> bool {
        self.0.is_human_readable()
    }
}

macro_rules! visit {
    ($($method:ident($type:ty);)*) => {$(
        fn $method<E: Error>(self, value: $type) -> Result<V::Value, E> {
            self.0.$method(value)
        }
    )*};
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Plain<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.expecting(f)
    }

    visit! {
        visit_bool(bool);
        visit_i64(i64);
        visit_u64(u64);
        visit_str(&str);
        visit_borrowed_str(&'de str);
        visit_bytes(&[u8]);
        visit_borrowed_bytes(&'de [u8]);
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<V::Value, E> {
        Err(E::custom("a number that may have been rounded"))
    }

    fn visit_none<E: Error>(self) -> Result<V::Value, E> {
        self.0.visit_none()
    }

    fn visit_unit<E: Error>(self) -> Result<V::Value, E> {
        self.0.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<V::Value, D::Error> {
        self.0.visit_some(Plain(deserializer))
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<V::Value, D::Error> {
        self.0.visit_newtype_struct(Plain(deserializer))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, access: A) -> Result<V::Value, A::Error> {
        self.0.visit_seq(Plain(access))
    }

    fn visit_map<A: MapAccess<'de>>(self, access: A) -> Result<V::Value, A::Error> {
        self.0.visit_map(Plain(access))
    }

    fn visit_enum<A: EnumAccess<'de>>(self, access: A) -> Result<V::Value, A::Error> {
        self.0.visit_enum(Plain(access))
    }
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Plain<S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<S::Value, D::Error> {
        self.0.deserialize(Plain(deserializer))
    }
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for Plain<A> {
    type Error = A::Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, A::Error> {
        self.0.next_element_seed(Plain(seed))
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Plain<A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, A::Error> {
        self.0.next_key_seed(Plain(seed))
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, A::Error> {
        self.0.next_value_seed(Plain(seed))
    }
}

impl<'de, A: EnumAccess<'de>> EnumAccess<'de> for Plain<A> {
    type Error = A::Error;
    type Variant = Plain<A::Variant>;

    fn variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<(T::Value, Self::Variant), A::Error> {
        self.0.variant_seed(Plain(seed)).map(|(value, variant)| (value, Plain(variant)))
    }
}

impl<'de, A: VariantAccess<'de>> VariantAccess<'de> for Plain<A> {
    type Error = A::Error;

    fn unit_variant(self) -> Result<(), A::Error> {
        self.0.unit_variant()
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, A::Error> {
        self.0.newtype_variant_seed(Plain(seed))
    }

    fn tuple_variant<V: Visitor<'de>>(self, length: usize, visitor: V) -> Result<V::Value, A::Error> {
        self.0.tuple_variant(length, Plain(visitor))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, A::Error> {
        self.0.struct_variant(fields, Plain(visitor))
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::{String, ToString};

    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::resource::round_trip::manifest;

    const KINDS: [Kind; 4] = [Kind::WorkloadEndpoint, Kind::Node, Kind::IpamBlock, Kind::BlockAffinity];

    /// Values to put into a document.
    const VALUES: &[&str] = &[
        "null",
        "[]",
        "{}",
        "[{}]",
        "0",
        "-0",
        "-1",
        "1.5",
        "1e2",
        "65536",
        "18446744073709551616",
        "true",
        r#""""#,
        r#""x""#,
        r#""\ud800""#,
        r#""10.0.0.1/8""#,
        r#"{"a": 1}"#,
        r#"{"a": "b", "a": "c"}"#,
        r#"[["http", "TCP", 80, 0, ""]]"#,
        r#"{"x": [1.5]}"#,
        r#"[{"name": "x"}, {}]"#,
        r#"[{"interfaceName": "cali1"}]"#,
    ];

    /// Names of members to put in.
    const NAMES: &[&str] =
        &["unknown", "metadata", "spec", "status", "labels", "node", "ports", "interfaceName", "bgp", "cidr", "state"];

    /// Breakage to put anywhere into the text.
    const BREAKS: &[&str] = &["", "", "", ",", "}", "]", "\"", "{", "0", "\u{1}", "é"];

    /// As upstream writes it.
    fn document(kind: Kind, seed: u64) -> Value {
        match kind {
            Kind::IpamBlock => json!({
                "cidr": "10.0.0.0/30", "affinity": "host:a", "allocations": [0, null, null, null], "unallocated": [1, 2, 3],
                "attributes": [{"handle_id": "h", "secondary": {"node": "a"}}], "deleted": false, "sequenceNumber": seed,
                "sequenceNumberForAllocation": {"0": 3},
            }),
            Kind::BlockAffinity => json!({"state": "confirmed", "deleted": false}),
            kind => manifest(kind, seed, 3),
        }
    }

    fn is_exact(value: &Value) -> bool {
        match value {
            Value::Number(number) => !number.is_f64(),
            Value::Array(items) => items.iter().all(is_exact),
            Value::Object(members) => members.values().all(is_exact),
            _ => true,
        }
    }

    /// What the fast way reads, the slow way reads alike. Says whether the fast way read it.
    fn agrees(kind: Kind, text: &[u8]) -> bool {
        let Some(resource) = Resource::decode_text(kind, text) else { return false };
        let shown = String::from_utf8_lossy(text);
        let value: Value = serde_json::from_slice(text).unwrap_or_else(|fault| panic!("{shown}: {fault}"));
        assert!(is_exact(&value), "{shown}");
        assert_eq!(Resource::decode(kind, &value), Ok(resource), "{shown}");
        true
    }

    #[test]
    fn what_is_in_order_is_read() {
        for kind in KINDS {
            let mut read = 0;
            for seed in 0..200 {
                let document = document(kind, seed);
                if Resource::decode(kind, &document).is_ok() && is_exact(&document) {
                    assert!(agrees(kind, document.to_string().as_bytes()), "{document}");
                    read += 1;
                }
            }
            assert!(read >= 10, "{kind}: only {read} documents of 200 were in order");
        }
        assert_eq!(Resource::decode_text(Kind::Tier, br#"{"metadata": {"name": "a"}}"#), None);
    }

    #[test]
    fn what_needs_a_second_look_is_left() {
        let text = |further: &str| {
            format!(
                r#"{{"metadata": {{"name": "a", "labels": {{"a": "b"}}}}, "spec": {{"interfaceName": "cali1"{further}}}}}"#
            )
        };
        assert!(agrees(Kind::WorkloadEndpoint, text(r#", "newer": {"a": [1, null, "x"]}"#).as_bytes()));
        for further in [
            r#", "newer": 1.5"#,
            r#", "newer": [{"a": 1e2}]"#,
            r#", "newer": -0"#,
            r#", "newer": 18446744073709551616"#,
            r#", "newer": "\ud800""#,
            r#", "node": null"#,
            r#", "node": "a", "node": "b""#,
            r#", "qosControls": []"#,
            r#", "ports": [["http", "TCP", 80]]"#,
            r#", "ports": [{"protocol": "TCP", "port": 80.0}]"#,
            r#"}} x {{"#,
        ] {
            assert_eq!(Resource::decode_text(Kind::WorkloadEndpoint, text(further).as_bytes()), None, "{further}");
        }
        for document in
            [r#"["a"]"#, r#"{"metadata": []}"#, r#"{"spec": []}"#, r#"{"metadata": {"labels": {"a": 1}}}"#, "{} {}"]
        {
            assert_eq!(Resource::decode_text(Kind::Node, document.as_bytes()), None, "{document}");
        }
    }

    fn count(value: &Value) -> usize {
        1 + match value {
            Value::Array(items) => items.iter().map(count).sum(),
            Value::Object(members) => members.values().map(count).sum(),
            _ => 0,
        }
    }

    /// Puts a value in the place of another one, or into a mapping under a name.
    fn put(document: &mut Value, at: &mut usize, name: Option<&str>, new: &mut Option<Value>) {
        let Some(at_others) = at.checked_sub(1) else {
            match (name, &mut *document, new.take()) {
                (Some(name), Value::Object(members), Some(new)) => drop(members.insert(name.into(), new)),
                (None, document, Some(new)) => *document = new,
                _ => {}
            }
            return;
        };
        *at = at_others;
        match document {
            Value::Array(items) => items.iter_mut().for_each(|item| put(item, at, name, new)),
            Value::Object(members) => members.values_mut().for_each(|member| put(member, at, name, new)),
            _ => {}
        }
    }

    type Change = (prop::sample::Index, &'static str, Option<&'static str>);

    /// A document with changes. What a value cannot hold (a member that is there twice, a number as it is written) stands for itself
    /// in the text only.
    fn changed(mut document: Value, changes: &[Change]) -> String {
        let mark = |index: usize, name: &str| format!("<{index}>{name}");
        for (index, (at, _, name)) in changes.iter().enumerate() {
            let mut at = at.index(count(&document));
            let name = name.map(|name| mark(index, name));
            put(&mut document, &mut at, name.as_deref(), &mut Some(mark(index, "").into()));
        }
        let mut text = document.to_string();
        for (index, (_, value, name)) in changes.iter().enumerate() {
            text = text.replace(&format!("\"{}\"", mark(index, "")), value);
            if let Some(name) = name {
                text = text.replace(&mark(index, name), name);
            }
        }
        text
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases.max(2000), ..ProptestConfig::default() })]

        #[test]
        fn the_fast_way_never_reads_otherwise(
            kind in prop::sample::select(KINDS.to_vec()),
            seed in any::<u64>(),
            changes in prop::collection::vec(
                (any::<prop::sample::Index>(), prop::sample::select(VALUES), prop::option::of(prop::sample::select(NAMES))),
                0..3,
            ),
            (at, breakage) in (any::<prop::sample::Index>(), prop::sample::select(BREAKS)),
        ) {
            let document = document(kind, seed);
            let is_in_order = Resource::decode(kind, &document).is_ok() && is_exact(&document);
            let mut text = changed(document, &changes);
            if let Some(begin) = Some(at.index(text.len())).filter(|begin| text.is_char_boundary(*begin)) {
                text.insert_str(begin, breakage);
            }
            let is_read = agrees(kind, text.as_bytes());
            prop_assert!(is_read || !is_in_order || !changes.is_empty() || !breakage.is_empty(), "{}", text);
        }
    }
}
