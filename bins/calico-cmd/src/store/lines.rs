//! The old form of a configuration file: lines of `KEY="value"`, as a shell or systemd reads them.

use std::collections::BTreeMap;

use super::FileError;

/// The variables of the file called `name`; `None` if it has another form.
///
/// Such files hold settings of other programs, too: a key that nobody here knows is no error.
pub(super) fn read(name: &str, text: &str) -> Result<Option<BTreeMap<String, String>>, FileError> {
    let mut variables = BTreeMap::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let Some((key, value)) = assignment(line) else {
            // What begins otherwise is no such file; what goes on otherwise is one with a fault.
            if variables.is_empty() {
                return Ok(None);
            }
            return Err(fault(name, number, "expected KEY=\"value\""));
        };
        let value = unquote(value).map_err(|reason| fault(name, number, reason))?;
        variables.insert(key.to_owned(), value);
    }
    Ok((!variables.is_empty()).then_some(variables))
}

fn fault(name: &str, number: usize, reason: &str) -> FileError {
    FileError::Content { file: name.into(), reason: format!("line {number}: {reason}") }
}

fn assignment(line: &str) -> Option<(&str, &str)> {
    let line = line.strip_prefix("export ").map_or(line, str::trim_start);
    let (key, value) = line.split_once('=')?;
    let is_key = !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    is_key.then_some((key, value))
}

/// One word of a shell: bare, in single or in double quotes. Nothing is expanded.
fn unquote(text: &str) -> Result<String, &'static str> {
    let (value, rest) = if let Some(quoted) = text.strip_prefix('\'') {
        let (value, rest) = quoted.split_once('\'').ok_or("the quote is not closed")?;
        (value.to_owned(), rest)
    } else if let Some(quoted) = text.strip_prefix('"') {
        double_quoted(quoted)?
    } else {
        let (value, rest) = text.split_once([' ', '\t']).unwrap_or((text, ""));
        (value.to_owned(), rest)
    };
    let rest = rest.trim_start();
    if rest.is_empty() || rest.starts_with('#') {
        Ok(value)
    } else {
        Err("there is more after the value: put it into quotes")
    }
}

fn double_quoted(text: &str) -> Result<(String, &str), &'static str> {
    let mut value = String::new();
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '"' => return Ok((value, characters.as_str())),
            '\\' => match characters.next() {
                Some(escaped @ ('"' | '\\' | '$' | '`')) => value.push(escaped),
                Some(other) => value.extend(['\\', other]),
                None => break,
            },
            other => value.push(other),
        }
    }
    Err("the quote is not closed")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Option<BTreeMap<String, String>> {
        read("calico.cfg", text).unwrap()
    }

    #[test]
    fn a_shells_forms_are_read() {
        let text = "\n# etcd\nETCD_ENDPOINTS=\"https://a:1,https://b:1\"\n  export ETCD_KEY_FILE='/k e y' # ours\nCALICO_IP=\"\"\nX=bare\nY=\"a\\\"b\\\\c\\d\"\n";
        let variables = of(text).unwrap();
        let pairs: Vec<_> = variables.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        let expected = [
            ("CALICO_IP", ""),
            ("ETCD_ENDPOINTS", "https://a:1,https://b:1"),
            ("ETCD_KEY_FILE", "/k e y"),
            ("X", "bare"),
            ("Y", "a\"b\\c\\d"),
        ];
        assert_eq!(pairs, expected);
    }

    #[test]
    fn other_forms_are_left_to_others() {
        for text in ["", "# nothing\n", "kind: CalicoAPIConfig\n", "{\"kind\": \"x=y\"}", "a b=c", "---\nA=b\n"] {
            assert_eq!(of(text), None, "{text}");
        }
    }

    #[test]
    fn a_fault_is_named_by_its_line() {
        for (text, told) in [
            ("A=1\nkind: x\n", "line 2: expected"),
            ("A=1\n\nB=\"open\n", "line 3: the quote"),
            ("B='open\n", "line 1: the quote"),
            ("A=two words\n", "line 1: there is more"),
        ] {
            let error = read("calico.cfg", text).unwrap_err().to_string();
            assert!(error.contains(&format!("calico.cfg: {told}")), "{text}: {error}");
        }
    }
}
