//! Colour: helps, is never needed. The only user of owo-colors; without the command line it compiles away.

use crate::catalogue::{Effect, EventDef};

/// What a piece of text is, so that its colour can be chosen in one place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ink {
    /// As it comes.
    Plain,
    /// What the eye may pass over: numbers of rows, times, labels.
    Dim,
    /// A new context.
    Bold,
    /// A head of columns.
    Head,
    /// Something stops.
    Block,
    /// Something becomes able to run.
    Ready,
    /// An interrupt.
    Isr,
    /// The application's own marks.
    Mark,
    /// An error.
    Error,
}

/// The colours of one run: escape sequences made once.
#[derive(Debug, Clone, Default)]
pub struct Paint {
    on: Vec<(Ink, String)>,
}

/// Ends every colour.
const OFF: &str = "\x1b[0m";

impl Paint {
    /// Colours, or none. Without the command line's feature always none.
    #[must_use]
    pub fn new(colour: bool) -> Self {
        if colour { Self { on: sequences() } } else { Self::default() }
    }

    /// True where colours are on.
    #[must_use]
    pub fn is_on(&self) -> bool {
        !self.on.is_empty()
    }

    /// What to write before and after text of this ink; both empty without colour.
    #[must_use]
    #[inline]
    pub fn around(&self, ink: Ink) -> (&str, &str) {
        if ink == Ink::Plain || self.on.is_empty() {
            return ("", "");
        }
        self.on.iter().find(|(own, _)| *own == ink).map_or(("", ""), |(_, start)| (start.as_str(), OFF))
    }

    /// The text with its colour.
    #[must_use]
    pub fn text(&self, ink: Ink, text: &str) -> String {
        let (start, end) = self.around(ink);
        [start, text, end].concat()
    }
}

/// The ink of an event's name: by what the event does, never by its id.
#[must_use]
pub fn ink_of(def: Option<&EventDef>) -> Ink {
    let Some(def) = def else { return Ink::Mark };
    if def.effects.has(Effect::Block) {
        Ink::Block
    } else if def.effects.has(Effect::IsrEnter) || def.effects.has(Effect::IsrExit) {
        Ink::Isr
    } else if def.effects.has(Effect::Ready) {
        Ink::Ready
    } else if def.effects.has(Effect::Mark) {
        Ink::Mark
    } else if def.class.ends_with("ERRORS") {
        Ink::Error
    } else {
        Ink::Plain
    }
}

#[cfg(feature = "cli")]
fn sequences() -> Vec<(Ink, String)> {
    use owo_colors::Style;
    [
        (Ink::Dim, Style::new().dimmed()),
        (Ink::Bold, Style::new().bold()),
        (Ink::Head, Style::new().dimmed()),
        (Ink::Block, Style::new().yellow()),
        (Ink::Ready, Style::new().green()),
        (Ink::Isr, Style::new().cyan()),
        (Ink::Mark, Style::new().magenta()),
        (Ink::Error, Style::new().red().bold()),
    ]
    .into_iter()
    .map(|(ink, style)| (ink, style.prefix_formatter().to_string()))
    .collect()
}

#[cfg(not(feature = "cli"))]
fn sequences() -> Vec<(Ink, String)> {
    Vec::new()
}
