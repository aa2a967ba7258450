//! Sentences with arguments in them: `sample {number} of {i2}`.

/// A piece of a sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// Text as it is.
    Text(String),
    /// The payload word of this number, from 0.
    Word(usize),
    /// The payload word that the definition calls so.
    Field(String),
}

/// A sentence, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    /// Its pieces, in order.
    pub parts: Vec<Part>,
}

impl Template {
    /// Parses a sentence: `{i1}` to `{i4}` and `{name}` are replaced by arguments, `{{` and `}}` by braces. `None` for
    /// an empty one.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = Vec::new();
        let mut plain = String::new();
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            match c {
                '{' | '}' if chars.peek() == Some(&c) => {
                    chars.next();
                    plain.push(c);
                }
                '{' => {
                    let mut name = String::new();
                    let mut closed = false;
                    for c in chars.by_ref() {
                        if c == '}' {
                            closed = true;
                            break;
                        }
                        name.push(c);
                    }
                    if !closed {
                        // What is not closed is text.
                        plain.push('{');
                        plain.push_str(&name);
                        break;
                    }
                    if !plain.is_empty() {
                        parts.push(Part::Text(std::mem::take(&mut plain)));
                    }
                    let name = name.trim();
                    let word = name.strip_prefix('i').and_then(|n| n.parse::<usize>().ok()?.checked_sub(1));
                    parts.push(word.map_or_else(|| Part::Field(name.to_owned()), Part::Word));
                }
                c => plain.push(c),
            }
        }
        if !plain.is_empty() {
            parts.push(Part::Text(plain));
        }
        (!parts.is_empty()).then_some(Self { parts })
    }

    /// The names in it that none of `fields` has.
    pub(super) fn unknown<'a>(&'a self, fields: &'a [Option<crate::catalogue::FieldDef>]) -> Option<&'a str> {
        self.parts.iter().find_map(|part| match part {
            Part::Field(name) if !fields.iter().flatten().any(|f| f.name == *name) => Some(name.as_str()),
            _ => None,
        })
    }
}
