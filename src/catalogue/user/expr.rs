//! Constant expressions of C: what a macro or an enumerator is set to.

/// A piece of C.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Token<'a> {
    /// A number.
    Number(i64),
    /// A name or a keyword.
    Word(&'a str),
    /// `<<`, `>>`, or one character.
    Mark(&'a str),
}

/// How deep parentheses, and names in names, may be in each other.
const MAX_DEPTH: u32 = 64;

/// Cuts text without comments into pieces. What is no C becomes marks of one character.
pub fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut list = Vec::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let len = if c.is_whitespace() {
            c.len_utf8()
        } else if c.is_ascii_digit() {
            let len = span(rest, |c| c.is_ascii_alphanumeric() || c == '\'' || c == '.');
            let text = rest.get(..len).unwrap_or("");
            list.push(literal(text).map_or(Token::Mark("?"), Token::Number));
            len
        } else if c.is_ascii_alphabetic() || c == '_' {
            let len = span(rest, |c| c.is_ascii_alphanumeric() || c == '_');
            list.push(Token::Word(rest.get(..len).unwrap_or("")));
            len
        } else if c == '"' || c == '\'' {
            let (token, len) = quoted(rest, c);
            list.push(token);
            len
        } else {
            let len = if rest.starts_with("<<") || rest.starts_with(">>") { 2 } else { c.len_utf8() };
            list.push(Token::Mark(rest.get(..len).unwrap_or("")));
            len
        };
        rest = rest.get(len..).unwrap_or("");
    }
    list
}

fn span(text: &str, keep: impl Fn(char) -> bool) -> usize {
    text.find(|c| !keep(c)).unwrap_or(text.len())
}

/// A string, which has no value, or a character, which has one; and its length.
#[expect(clippy::arithmetic_side_effects, reason = "an offset in the text")]
fn quoted(text: &str, quote: char) -> (Token<'_>, usize) {
    let mut escaped = false;
    let end = text.char_indices().skip(1).find(|(_, c)| {
        let ends = *c == quote && !escaped;
        escaped = *c == '\\' && !escaped;
        ends
    });
    let len = end.map_or(text.len(), |(at, _)| at + 1);
    match *text.as_bytes() {
        [b'\'', c, b'\'', ..] if quote == '\'' && !matches!(c, b'\\' | b'\'') && c.is_ascii() => {
            (Token::Number(c.into()), len)
        }
        _ => (Token::Mark("?"), len),
    }
}

/// `4096`, `0x1000UL`, `010`, `0b1`, `4'096`; `None` for what has a fraction.
fn literal(text: &str) -> Option<i64> {
    let text: String = text.chars().filter(|c| *c != '\'').collect::<String>().to_ascii_lowercase();
    let (digits, radix) = if let Some(hex) = text.strip_prefix("0x") {
        (hex, 16)
    } else if let Some(bits) = text.strip_prefix("0b") {
        (bits, 2)
    } else {
        match text.strip_prefix('0') {
            Some(octal) if octal.starts_with(|c: char| c.is_ascii_digit()) => (octal, 8),
            _ => (text.as_str(), 10),
        }
    };
    let bare = digits.trim_end_matches(['u', 'l', 'z']);
    i64::from_str_radix(bare, radix).ok()
}

/// The value of an expression, where `name` gives the values of the names in it. `None` where it is no constant, or not a
/// whole number of 63 bits. `depth` is 0, or the depth that `name` received: how deep names already are in names.
pub fn value(tokens: &[Token<'_>], depth: u32, name: &mut dyn FnMut(&str, u32) -> Option<i64>) -> Option<i64> {
    let mut all = Parser { tokens, at: 0, depth, name };
    let value = all.binary(0)?;
    (all.at == tokens.len()).then_some(value)
}

struct Parser<'t, 'n> {
    tokens: &'t [Token<'t>],
    at: usize,
    depth: u32,
    name: &'n mut dyn FnMut(&str, u32) -> Option<i64>,
}

/// How tightly an operator binds.
fn rank(mark: &str) -> Option<u32> {
    Some(match mark {
        "|" => 1,
        "^" => 2,
        "&" => 3,
        "<<" | ">>" => 4,
        "+" | "-" => 5,
        "*" | "/" | "%" => 6,
        _ => return None,
    })
}

fn apply(mark: &str, a: i64, b: i64) -> Option<i64> {
    match mark {
        "|" => Some(a | b),
        "^" => Some(a ^ b),
        "&" => Some(a & b),
        "<<" => u32::try_from(b).ok().filter(|b| *b < 63).and_then(|b| a.checked_mul(1i64.checked_shl(b)?)),
        ">>" => a.checked_shr(u32::try_from(b).ok()?),
        "+" => a.checked_add(b),
        "-" => a.checked_sub(b),
        "*" => a.checked_mul(b),
        "/" => a.checked_div(b),
        "%" => a.checked_rem(b),
        _ => None,
    }
}

#[expect(clippy::arithmetic_side_effects, reason = "counts tokens, and parentheses to a limit")]
impl<'t> Parser<'t, '_> {
    fn peek(&self) -> Option<Token<'t>> {
        self.tokens.get(self.at).copied()
    }

    fn step(&mut self) {
        self.at += 1;
    }

    fn binary(&mut self, least: u32) -> Option<i64> {
        let mut left = self.unary()?;
        while let Some(Token::Mark(mark)) = self.peek()
            && let Some(own) = rank(mark).filter(|r| *r > least)
        {
            self.step();
            let right = self.binary(own)?;
            left = apply(mark, left, right)?;
        }
        Some(left)
    }

    fn unary(&mut self) -> Option<i64> {
        if self.depth >= MAX_DEPTH {
            return None;
        }
        self.depth += 1;
        let value = self.primary();
        self.depth -= 1;
        value
    }

    fn primary(&mut self) -> Option<i64> {
        let token = self.peek()?;
        self.step();
        match token {
            Token::Number(n) => Some(n),
            Token::Word(word) if self.peek() == Some(Token::Mark("(")) => {
                // UINT32_C(4096) and its kin.
                let inner = word.ends_with("INT8_C") || word.ends_with("INT16_C") || word.ends_with("INT32_C");
                (inner || word.ends_with("INT64_C")).then(|| self.unary()).flatten()
            }
            Token::Word(word) => (self.name)(word, self.depth),
            Token::Mark("+") => self.unary(),
            Token::Mark("-") => self.unary()?.checked_neg(),
            Token::Mark("~") => self.unary().map(|v| !v),
            Token::Mark("(") => {
                if let Some(end) = self.cast() {
                    self.at = end;
                    return self.unary();
                }
                let value = self.binary(0)?;
                let closed = self.peek() == Some(Token::Mark(")"));
                self.step();
                closed.then_some(value)
            }
            Token::Mark(_) => None,
        }
    }

    /// After a `(`: where the cast ends, if it is one. Names of types are no values, and a value follows.
    fn cast(&mut self) -> Option<usize> {
        let mut at = self.at;
        let mut sure = false;
        let mut words = 0usize;
        loop {
            match self.tokens.get(at)? {
                Token::Word(word) => {
                    let keyword = ["unsigned", "signed", "int", "long", "short", "char", "const", "enum"];
                    sure |= keyword.contains(word) || word.ends_with("_t");
                    if !sure && (self.name)(word, self.depth).is_some() {
                        return None;
                    }
                    words += 1;
                }
                Token::Mark(")") if words > 0 => break,
                _ => return None,
            }
            at += 1;
        }
        at += 1;
        let follows = match self.tokens.get(at)? {
            Token::Number(_) | Token::Word(_) | Token::Mark("(" | "~") => true,
            Token::Mark("-" | "+") => sure,
            Token::Mark(_) => false,
        };
        follows.then_some(at)
    }
}
