//! Protocol buffers, as far as a writer needs them: varints, and fields that state their length.

/// Adds a number: seven bits a byte, the lowest first.
pub(super) fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value & 0x7F) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// A message that is being made.
#[derive(Debug, Default)]
pub(super) struct Message(Vec<u8>);

impl Message {
    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Begins another in the same memory.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    fn varint(&mut self, value: u64) {
        varint(&mut self.0, value);
    }

    fn tag(&mut self, field: u32, wire: u64) {
        self.varint(u64::from(field) << 3 | wire);
    }

    /// A number.
    pub fn number(&mut self, field: u32, value: u64) {
        self.tag(field, 0);
        self.varint(value);
    }

    /// A signed number of a field of type int64: ten bytes where it is negative.
    pub(super) fn signed(&mut self, field: u32, value: i64) {
        self.number(field, u64::from_ne_bytes(value.to_ne_bytes()));
    }

    /// A number of eight bytes.
    pub(super) fn fixed(&mut self, field: u32, value: u64) {
        self.tag(field, 1);
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    /// Text.
    pub fn text(&mut self, field: u32, text: &str) {
        self.block(field, text.as_bytes());
    }

    /// Another message.
    pub(super) fn message(&mut self, field: u32, message: &Self) {
        self.block(field, &message.0);
    }

    fn block(&mut self, field: u32, bytes: &[u8]) {
        self.tag(field, 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_as_the_encoding_says() {
        let mut inner = Message::default();
        inner.text(2, "ab");
        let mut all = Message::default();
        all.number(1, 300);
        all.message(3, &inner);
        all.signed(4, -1);
        all.fixed(16, 1);
        assert_eq!(all.bytes()[..3], [0x08, 0xAC, 0x02]);
        assert_eq!(all.bytes()[3..9], [0x1A, 4, 0x12, 2, b'a', b'b']);
        assert_eq!(all.bytes()[9..20], [0x20, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1]);
        assert_eq!(all.bytes()[20..], [0x81, 0x01, 1, 0, 0, 0, 0, 0, 0, 0]);
    }
}
