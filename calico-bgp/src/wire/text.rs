//! Text that a peer wrote, made safe to show.

/// Reads UTF-8 leniently and replaces what could move a terminal's cursor, forge a line of a log, or turn the direction of what
/// follows.
pub(super) fn sanitised(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes)
        .chars()
        .map(|c| if is_harmful(c) { char::REPLACEMENT_CHARACTER } else { c })
        .collect()
}

fn is_harmful(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}
