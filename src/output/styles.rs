//! Colour: helps, is never needed. The only user of owo-colors; without the command line it compiles away.

use crate::catalogue::{Effect, EventDef};
use crate::report::StateKind;

/// What a piece of text is, so that its colour can be chosen in one place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
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
    /// A thread that runs.
    Running,
    /// What is over.
    Ended,
}

/// The colours of one run: escape sequences made once.
#[derive(Debug, Clone, Default)]
pub struct Styles {
    on: Vec<(Style, String)>,
}

/// Ends every colour.
pub(super) const OFF: &str = "\x1b[0m";

impl Styles {
    /// Colours, or none. Without the command line's feature always none.
    pub fn new(colour: bool) -> Self {
        if colour { Self { on: sequences() } } else { Self::default() }
    }

    /// True where colours are on.
    pub fn is_on(&self) -> bool {
        !self.on.is_empty()
    }

    /// What to write before and after text of this style; both empty without colour.
    pub(super) fn around(&self, style: Style) -> (&str, &str) {
        if style == Style::Plain || self.on.is_empty() {
            return ("", "");
        }
        self.on.iter().find(|(own, _)| *own == style).map_or(("", ""), |(_, start)| (start.as_str(), OFF))
    }

    /// The text with its colour.
    pub fn text(&self, style: Style, text: &str) -> String {
        let (start, end) = self.around(style);
        [start, text, end].concat()
    }
}

/// The style of an event's name: by what the event does, never by its id.
pub(super) fn style_of(def: Option<&EventDef>) -> Style {
    let Some(def) = def else { return Style::Mark };
    if def.effects.has(Effect::Block) {
        Style::Block
    } else if def.effects.has(Effect::IsrEnter) || def.effects.has(Effect::IsrExit) {
        Style::Isr
    } else if def.effects.has(Effect::Ready) {
        Style::Ready
    } else if def.effects.has(Effect::Mark) {
        Style::Mark
    } else if def.class.ends_with("ERRORS") {
        Style::Error
    } else {
        Style::Plain
    }
}

/// The style of a thread's state. One that is suspended stays so until another thread acts: it is not what blocks it.
pub(super) const fn style_of_state(state: StateKind) -> Style {
    match state {
        StateKind::Running => Style::Running,
        StateKind::Ready => Style::Ready,
        StateKind::Blocked => Style::Block,
        StateKind::Suspended => Style::Mark,
        StateKind::Ended => Style::Ended,
        StateKind::Unknown => Style::Plain,
    }
}

#[cfg(feature = "cli")]
fn sequences() -> Vec<(Style, String)> {
    use owo_colors::Style as Look;
    [
        (Style::Dim, Look::new().dimmed()),
        (Style::Bold, Look::new().bold()),
        (Style::Head, Look::new().dimmed()),
        (Style::Block, Look::new().yellow()),
        (Style::Ready, Look::new().green()),
        (Style::Isr, Look::new().cyan()),
        (Style::Mark, Look::new().magenta()),
        (Style::Error, Look::new().red().bold()),
        (Style::Running, Look::new().green().bold()),
        (Style::Ended, Look::new().dimmed()),
    ]
    .into_iter()
    .map(|(style, look)| (style, look.prefix_formatter().to_string()))
    .collect()
}

#[cfg(not(feature = "cli"))]
fn sequences() -> Vec<(Style, String)> {
    Vec::new()
}
