//! The stub's target description: which registers it has, and by what number it is asked for one of them.

use super::Client;
use super::query::{MAX_OBJECT, attribute};
use super::reply;
use crate::rsp::error::RspError;

/// The most documents that a description consists of, one included by another.
const MAX_DOCUMENTS: usize = 32;
/// The most registers that are taken from it.
const MAX_REGISTERS: usize = 4096;

/// A register, as a stub describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Described {
    /// Its name; hostile text.
    pub name: String,
    /// The number by which it is asked for.
    pub number: u32,
    /// Its size; 0 where none is given.
    pub bits: u32,
}

/// What was read of a description so far.
#[derive(Default)]
struct Found {
    registers: Vec<Described>,
    /// The number of a register that gives none: the one after that before it.
    next: Option<u32>,
    documents: usize,
    /// Bytes of all documents.
    bytes: usize,
}

/// The elements of a document, in its order.
#[derive(Debug, PartialEq, Eq)]
enum Element<'a> {
    Register { name: &'a str, number: Option<u32>, bits: u32 },
    Include(&'a str),
}

impl Client {
    /// The registers that the stub describes, by name and number; empty where it describes none.
    ///
    /// # Errors
    /// Of the link only.
    pub fn described_registers(&mut self) -> Result<Vec<(String, u32)>, RspError> {
        Ok(self.description()?.into_iter().map(|register| (register.name, register.number)).collect())
    }

    /// The same, with their sizes.
    ///
    /// # Errors
    /// Of the link only.
    pub fn description(&mut self) -> Result<Vec<Described>, RspError> {
        let mut found = Found { next: Some(0), ..Found::default() };
        self.describe("target.xml", &mut found)?;
        Ok(found.registers)
    }

    #[allow(clippy::arithmetic_side_effects, reason = "counts documents, and bytes that are held in memory")]
    fn describe(&mut self, document: &str, found: &mut Found) -> Result<(), RspError> {
        // All documents together are no longer than one may be.
        if found.documents >= MAX_DOCUMENTS || found.bytes >= MAX_OBJECT {
            return Ok(());
        }
        found.documents += 1;
        let Some(xml) = self.object("features", document, "qXfer:features:read")? else { return Ok(()) };
        found.bytes += xml.len();
        let xml = String::from_utf8_lossy(&xml);
        for element in elements(&xml) {
            match element {
                Element::Include(document) => self.describe(document, found)?,
                Element::Register { name, number, bits } => {
                    let number = number.or(found.next);
                    found.next = number.and_then(|number| number.checked_add(1));
                    if found.registers.len() < MAX_REGISTERS {
                        found.registers.extend(number.map(|number| Described { name: name.to_owned(), number, bits }));
                    }
                }
            }
        }
        Ok(())
    }

    /// One register by the stub's number (`p`), in the target's byte order; `None` where the stub does not know it.
    ///
    /// # Errors
    /// Of the link only.
    pub fn register(&mut self, number: u32) -> Result<Option<Vec<u8>>, RspError> {
        let accept = |b: &[u8]| b.is_empty() || reply::is_error(b) || reply::registers(b).is_some();
        let answer = self.link.ask(format!("p{number:x}").as_bytes(), &accept)?;
        let bytes = if reply::is_error(&answer) { None } else { reply::registers(&answer) };
        Ok(bytes.and_then(|bytes| bytes.into_iter().collect()))
    }
}

/// The `<reg .../>` and `<xi:include .../>` of a document. Nothing else of it is of use, so this is no XML parser.
fn elements(xml: &str) -> impl Iterator<Item = Element<'_>> {
    let mut rest = xml;
    let tags = std::iter::from_fn(move || {
        loop {
            let (_, tag) = rest.split_once('<')?;
            if let Some(comment) = tag.strip_prefix("!--") {
                rest = comment.split_once("-->").map_or("", |(_, rest)| rest);
                continue;
            }
            let (inside, behind) = tag.split_once('>')?;
            rest = behind;
            return Some(inside);
        }
    });
    tags.filter_map(|inside| {
        let (kind, inside) = inside.split_once(char::is_whitespace)?;
        match kind {
            "reg" => {
                let number = attribute(inside, "regnum").and_then(|n| n.parse().ok());
                let bits = attribute(inside, "bitsize").and_then(|n| n.parse().ok()).unwrap_or(0);
                Some(Element::Register { name: attribute(inside, "name")?, number, bits })
            }
            // A document's name goes into a request.
            "xi:include" => attribute(inside, "href").filter(|name| is_name(name)).map(Element::Include),
            _ => None,
        }
    })
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.len() <= 100 && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_and_documents_in_their_order() {
        let xml = "<?xml version=\"1.0\"?><!-- <reg name=\"not\"/> --><target><xi:include href='core.xml'/>\
                   <xi:include href=\"a:0,1#\"/><feature name=\"f\">\n<reg name=\"psp\" bitsize=\"32\"\n regnum=\"18\"/>\
                   <reg regname=\"x\" name=\"primask\"/><reg bitsize=\"1\"/><reg";
        let found: Vec<_> = elements(xml).collect();
        assert_eq!(
            found,
            [
                Element::Include("core.xml"),
                Element::Register { name: "psp", number: Some(18), bits: 32 },
                Element::Register { name: "primask", number: None, bits: 0 },
            ]
        );
    }
}
