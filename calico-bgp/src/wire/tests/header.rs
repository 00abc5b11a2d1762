use crate::wire::{Framer, MessageKind, Notification, WireError, header, keepalive};

fn first(bytes: &[u8]) -> Result<Option<MessageKind>, WireError> {
    let mut framer = Framer::default();
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
    let bad = [(0, 4), (18, 4), (4097, 2), (65535, 2), (20, 4), (28, 1), (22, 2), (20, 3), (22, 5), (24, 5)];
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
    let stream = [keepalive(), crate::wire::update::encode_end_of_rib(), keepalive()].concat();
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
