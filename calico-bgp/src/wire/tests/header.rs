use calico_core::net::Family;

use super::build::end_of_rib;
use crate::wire::notification::cease;
use crate::wire::{
    AddressFamily, Framer, MessageKind, Notification, RefreshKind, RouteRefresh, WireError, header, keepalive,
};

fn first(bytes: &[u8]) -> Result<Option<MessageKind>, WireError> {
    first_of(bytes, false)
}

fn first_of(bytes: &[u8], extended: bool) -> Result<Option<MessageKind>, WireError> {
    let mut framer = Framer::default();
    framer.set_extended(extended);
    framer.push(bytes);
    framer.next_message().map(|message| message.map(|(kind, _)| kind))
}

fn head(length: u16, code: u8) -> Vec<u8> {
    let mut bytes = vec![0xff; 16];
    bytes.extend_from_slice(&length.to_be_bytes());
    bytes.push(code);
    bytes
}

#[test]
fn each_bad_marker_byte_is_noticed() {
    // 1
    for position in 0..16 {
        let mut bytes = keepalive();
        bytes[position] = 0xfe;
        assert_eq!(first(&bytes), Err(WireError::NotSynchronised), "byte {position}");
    }
}

#[test]
fn impossible_lengths_are_named() {
    // 2, 4–8: (length, type)
    let bad = [(0, 4), (18, 4), (4097, 2), (65535, 2), (20, 4), (28, 1), (22, 2), (20, 3), (22, 5)];
    for (length, code) in bad {
        let error = first(&head(length, code)).unwrap_err();
        assert_eq!(error, WireError::BadMessageLength { length }, "length {length}, type {code}");
        assert_eq!(error.notification(), Notification::new(1, 2, length.to_be_bytes().to_vec()));
    }
}

#[test]
fn unknown_types_are_named() {
    // 3
    for code in [0, 6, 255] {
        let error = first(&head(19, code)).unwrap_err();
        assert_eq!(error.notification(), Notification::new(1, 3, vec![code]));
    }
}

#[test]
fn messages_are_found_wherever_the_stream_is_cut() {
    // 9, 10
    let stream = [keepalive(), end_of_rib(Family::V4), keepalive()].concat();
    let expected = [MessageKind::Keepalive, MessageKind::Update, MessageKind::Keepalive];
    for cut in 0..=stream.len() {
        let mut framer = Framer::default();
        let mut found = Vec::new();
        for piece in [&stream[..cut], &stream[cut..]] {
            framer.push(piece);
            while let Some((kind, _)) = framer.next_message().unwrap() {
                found.push(kind);
            }
        }
        assert_eq!(found, expected, "cut at {cut}");
        assert_eq!(framer.pending(), 0);
    }
}

#[test]
fn the_longest_message_is_read_and_one_byte_more_is_not_waited_for() {
    // 12
    let body = vec![0; 4096 - 19];
    let longest = header::frame(MessageKind::Update, &body);
    assert_eq!(first(&longest), Ok(Some(MessageKind::Update)));
    assert_eq!(first(&longest[..4095]), Ok(None));
    assert!(first(&head(4097, 2)).is_err(), "refused by its header alone");
}

#[test]
fn extended_messages() {
    // 13
    let longest = header::frame(MessageKind::Update, &vec![0; 65_535 - 19]);
    assert_eq!(first_of(&longest, true), Ok(Some(MessageKind::Update)));
    assert_eq!(first_of(&longest[..65_534], true), Ok(None));
    for (length, code) in [(4097, 1), (20, 4), (4097, 4), (65535, 1), (18, 2)] {
        let refused = Err(WireError::BadMessageLength { length });
        assert_eq!(first_of(&head(length, code), true), refused, "length {length}, type {code}");
    }
    for code in [2, 3, 5] {
        assert_eq!(first_of(&head(4097, code), true), Ok(None), "type {code}");
        assert!(first_of(&head(4097, code), false).is_err(), "type {code}");
    }
}

#[test]
fn route_refreshes() {
    // 8
    let family = AddressFamily::IPV6_UNICAST;
    for kind in [RefreshKind::Request, RefreshKind::Begin, RefreshKind::End] {
        let refresh = RouteRefresh { family, kind };
        assert_eq!(RouteRefresh::decode(&refresh.encode()[19..]), Ok(Some(refresh)));
    }
    assert_eq!(RouteRefresh::decode(&[0, 1, 3, 1]), Ok(None), "an unknown subtype is ignored");
    let refused = |body: &[u8]| RouteRefresh::decode(body).unwrap_err().notification();
    assert_eq!(refused(&[0, 1, 0, 1, 9]), Notification::new(1, 2, vec![0, 24]), "filters are not offered");
    for subtype in [1, 2] {
        let body = [0, 1, subtype, 1, 9];
        let whole = header::frame(MessageKind::RouteRefresh, &body);
        assert_eq!(refused(&body), Notification::new(7, 1, whole), "RFC 7313 section 5");
    }
    assert_eq!(refused(&[0, 1, 0]), Notification::new(1, 2, vec![0, 22]));
}

#[test]
fn notifications_of_any_size_are_read_and_their_text_is_made_safe() {
    // 47
    for size in [0, 1, 21, 255, 4096 - 21] {
        let notification = Notification::decode(&[&[6, 2][..], &vec![b'x'; size]].concat()).unwrap();
        assert_eq!(notification.data.len(), size);
        assert_eq!(first(&notification.encode()), Ok(Some(MessageKind::Notification)));
    }
    let text = |data: &[u8]| Notification::new(6, 2, data.to_vec()).shutdown_text();
    assert_eq!(text(b"\x05hello"), Some("hello".to_owned()));
    assert_eq!(text(b"\x06hello"), None, "a length beyond its data");
    assert_eq!(text(b"\x03a\x1b["), Some("a\u{fffd}[".to_owned()), "no escapes in logs");
    assert_eq!(text(b"\x02\xff\xfe"), Some("\u{fffd}\u{fffd}".to_owned()));
    assert_eq!(text(b""), None);
    assert_eq!(
        Notification::new(6, 7, b"\x05hello".to_vec()).shutdown_text(),
        None,
        "only shutdown and reset carry text"
    );
    let shown = Notification::new(6, 2, b"\x05hello".to_vec()).to_string();
    assert_eq!(shown, "Cease: administrative shutdown (6/2): hello");
}

#[test]
fn data_that_does_not_fit_is_cut() {
    let notification = Notification::new(3, 2, vec![7; 10_000]);
    assert_eq!(notification.encode().len(), 4096);
}

#[test]
fn what_operators_say() {
    // 47
    let said = |text: &str| Notification::administrative(cease::ADMINISTRATIVE_SHUTDOWN, text);
    assert_eq!(said("back at noon").shutdown_text().as_deref(), Some("back at noon"));
    assert_eq!(said("").shutdown_text(), None);
    let long = said(&"é".repeat(200));
    assert_eq!((long.data[0], long.data.len()), (254, 255), "cut between two characters");
    assert_eq!(long.shutdown_text(), Some("é".repeat(127)));
    let mirrored = Notification::new(6, 2, "\u{6}a\u{202e}b".as_bytes().iter().copied().chain([b'c']).collect());
    assert_eq!(mirrored.shutdown_text().as_deref(), Some("a\u{fffd}bc"), "text is not turned around");
}

#[test]
fn hard_resets() {
    let hard = Notification::administrative(cease::ADMINISTRATIVE_RESET, "new keys").into_hard_reset();
    assert_eq!((hard.code, hard.subcode, hard.is_hard_reset()), (6, cease::HARD_RESET, true));
    let read = Notification::decode(&hard.encode()[19..]).unwrap();
    assert_eq!(read, hard);
    let shown = "Cease: hard reset (6/9): Cease: administrative reset (6/4): new keys";
    assert_eq!(read.to_string(), shown);
    assert_eq!(read.reason().unwrap().subcode, cease::ADMINISTRATIVE_RESET);
    assert_eq!(Notification::cease(cease::HARD_RESET).to_string(), "Cease: hard reset (6/9)");
    let nested = Notification::new(6, 9, [6, 9].repeat(2000));
    assert_eq!(nested.to_string(), "Cease: hard reset (6/9)", "a peer cannot make us go deep");
    assert_eq!(Notification::new(6, 7, vec![6, 4]).reason(), None);
}

#[test]
fn limits_are_told() {
    let limit = Notification::maximum_prefixes(AddressFamily::IPV6_UNICAST, 1000);
    assert_eq!(limit, Notification::new(6, 1, vec![0, 2, 1, 0, 0, 3, 232]));
    assert_eq!(Notification::send_hold_timer_expired().to_string(), "send hold timer expired (8/0)");
}
