//! Bytes in, replies out.
//!
//! A line has a code of four digits and `-`, or a space where it is the last one; a line that begins with a space has the code of the one before
//! it. `+` begins what nobody asked for. Codes that begin with 0, 8 or 9 end a reply (if they stand on a last line).

/// Longest line. BIRD's own buffer has 4096 bytes, but paths have thousands of numbers in them.
const LINE: usize = 1 << 20;
/// Most bytes of one reply: a full table of routes with attributes.
const REPLY: usize = 1 << 28;

/// A line of a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a code and a text, as the protocol has it")]
pub struct Line {
    /// What it is.
    pub code: u16,
    /// What it says.
    pub text: String,
}

/// Everything that is said to one command.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Reply {
    /// In order; the last one ends it.
    pub lines: Vec<Line>,
}

/// What is no reply.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReplyError {
    /// More than [`Replies`] keeps.
    #[error("the reply is too long")]
    Long,
    /// A line without a code.
    #[error("{0:?} is no line of BIRD's protocol: is this its control socket?")]
    Line(String),
}

/// Puts replies together.
#[derive(Debug, Default)]
pub struct Replies {
    pending: Vec<u8>,
    /// Of `pending`, so much is known to hold no end of a line.
    searched: usize,
    reply: Reply,
    bytes: usize,
}

impl Reply {
    /// Text of the last line, with its code.
    pub fn last(&self) -> Option<&Line> {
        self.lines.last()
    }

    /// Why the command failed, if it did.
    pub fn failure(&self) -> Option<&str> {
        self.last().filter(|line| matches!(line.code / 1000, 8 | 9)).map(|line| line.text.as_str())
    }

    /// Text of lines with a code.
    pub fn texts(&self, code: u16) -> impl Iterator<Item = &str> {
        self.lines.iter().filter(move |line| line.code == code).map(|line| line.text.as_str())
    }
}

impl Replies {
    /// Takes bytes in.
    pub fn push(&mut self, bytes: &[u8]) {
        self.pending.extend_from_slice(bytes);
    }

    /// The next whole reply, if it is there. After an error nothing more can be read.
    pub fn next_reply(&mut self) -> Result<Option<Reply>, ReplyError> {
        while let Some(line) = self.next_line()? {
            if self.take(line)? {
                self.bytes = 0;
                return Ok(Some(core::mem::take(&mut self.reply)));
            }
        }
        Ok(None)
    }

    fn next_line(&mut self) -> Result<Option<String>, ReplyError> {
        let unsearched = self.pending.get(self.searched..).unwrap_or_default();
        let Some(place) = unsearched.iter().position(|byte| *byte == b'\n') else {
            self.searched = self.pending.len();
            return if self.pending.len() > LINE { Err(ReplyError::Long) } else { Ok(None) };
        };
        let end = self.searched + place;
        let line: Vec<u8> = self.pending.drain(..=end).collect();
        self.searched = 0;
        self.bytes += line.len();
        if self.bytes > REPLY {
            return Err(ReplyError::Long);
        }
        Ok(Some(String::from_utf8_lossy(&line).trim_end_matches(['\n', '\r']).to_owned()))
    }

    /// Whether the line ends the reply.
    fn take(&mut self, line: String) -> Result<bool, ReplyError> {
        if line.starts_with('+') {
            return Ok(false);
        }
        if let Some(text) = line.strip_prefix(' ') {
            let Some(code) = self.reply.lines.last().map(|line| line.code) else { return Err(ReplyError::Line(line)) };
            self.reply.lines.push(Line { code, text: text.to_owned() });
            return Ok(false);
        }
        let Some((code, last, text)) = head(&line) else { return Err(ReplyError::Line(line)) };
        self.reply.lines.push(Line { code, text: text.to_owned() });
        Ok(last && matches!(code / 1000, 0 | 8 | 9))
    }
}

/// Code, whether it is marked as the last one, and text.
fn head(line: &str) -> Option<(u16, bool, &str)> {
    let digits = line.get(..4).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))?;
    let last = match line.as_bytes().get(4)? {
        b' ' => true,
        b'-' => false,
        _ => return None,
    };
    Some((digits.parse().ok()?, last, line.get(5..)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str = "0001 BIRD 2.0.12 ready.\n1000-BIRD 2.0.12\n1011-Router ID is 10.77.0.1\n Hostname is vm\n\
                       +1011 asynchronous\n0024-Graceful restart recovery in progress\n0013 Daemon is up and running\n";

    #[test]
    fn replies_are_cut_where_they_end_however_they_arrive() {
        for step in 1..TWO.len() {
            let (mut replies, mut all) = (Replies::default(), Vec::new());
            for chunk in TWO.as_bytes().chunks(step) {
                replies.push(chunk);
                while let Some(reply) = replies.next_reply().unwrap() {
                    all.push(reply);
                }
            }
            let [greeting, status] = all.as_slice() else { panic!("{all:?}") };
            assert_eq!(greeting.last().unwrap().code, 1);
            assert_eq!(status.texts(1011).collect::<Vec<_>>(), ["Router ID is 10.77.0.1", "Hostname is vm"]);
            assert_eq!(status.last().unwrap().text, "Daemon is up and running");
            assert_eq!(status.failure(), None);
        }
    }

    #[test]
    fn what_is_no_protocol_of_birds_is_told() {
        for bad in ["HTTP/1.1 400 Bad Request\n", " nothing before it\n", "000x \n", "1000\n", "éééé-\n"] {
            let mut replies = Replies::default();
            replies.push(bad.as_bytes());
            assert!(matches!(replies.next_reply(), Err(ReplyError::Line(_))), "{bad:?}");
        }
    }

    #[test]
    fn a_line_without_an_end_is_not_kept() {
        let mut replies = Replies::default();
        for _ in 0..3 {
            replies.push(&vec![b'x'; LINE / 2]);
        }
        assert_eq!(replies.next_reply(), Err(ReplyError::Long));
    }

    #[test]
    fn failures() {
        let mut replies = Replies::default();
        replies.push(b"0002-Reading configuration from x\n8002 x:1:1 syntax error\n9001 syntax error\n");
        assert_eq!(replies.next_reply().unwrap().unwrap().failure(), Some("x:1:1 syntax error"));
        assert_eq!(replies.next_reply().unwrap().unwrap().failure(), Some("syntax error"));
    }
}
