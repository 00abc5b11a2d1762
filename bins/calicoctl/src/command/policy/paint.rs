//! Text for people, line by line: in colours on terminals, and so that nothing that is stored moves the cursor.

use calico_cmd::output::printable;

/// How a part of a line looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    Plain,
    Bold,
    Dim,
    Good,
    Bad,
    /// Neither.
    Odd,
}

/// Text in the making.
#[derive(Debug)]
pub(super) struct Page {
    text: String,
    has_colours: bool,
}

impl Page {
    pub(super) const fn new(has_colours: bool) -> Self {
        Self { text: String::new(), has_colours }
    }

    /// A line of parts, so far from the margin.
    pub(super) fn line(&mut self, margin: usize, parts: &[(Style, &str)]) {
        let mut line = " ".repeat(margin);
        for (style, part) in parts {
            line += &self.painted(*style, &printable(part));
        }
        self.text += line.trim_end();
        self.text.push('\n');
    }

    pub(super) fn blank(&mut self) {
        self.text.push('\n');
    }

    pub(super) fn into_text(self) -> String {
        self.text
    }

    fn painted(&self, style: Style, text: &str) -> String {
        let code = match style {
            Style::Bold => "1",
            Style::Dim => "2",
            Style::Good => "32",
            Style::Bad => "31",
            Style::Odd => "33",
            Style::Plain => "",
        };
        if !self.has_colours || code.is_empty() || text.is_empty() {
            return text.to_owned();
        }
        format!("\u{1b}[{code}m{text}\u{1b}[0m")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_ours_alone() {
        let page = |has_colours| {
            let mut page = Page::new(has_colours);
            page.line(2, &[(Style::Bad, "a\u{1b}[2Jb"), (Style::Plain, " c "), (Style::Dim, "")]);
            page.into_text()
        };
        assert_eq!(page(false), "  a\u{fffd}[2Jb c\n");
        assert_eq!(page(true), "  \u{1b}[31ma\u{fffd}[2Jb\u{1b}[0m c\n");
    }
}
