//! Lists by dense numbers.

use super::Who;

/// What a list has for a number of a thread, a context or a core; it grows to hold it.
#[inline]
pub fn place<T: Clone + Default>(list: &mut Vec<T>, at: usize) -> Option<&mut T> {
    if at >= list.len() {
        grow(list, at);
    }
    list.get_mut(at)
}

#[cold]
fn grow<T: Clone + Default>(list: &mut Vec<T>, at: usize) {
    list.resize(at.saturating_add(1), T::default());
}

impl Who {
    /// Its place in a list of all: threads come last.
    #[inline]
    pub fn place(self) -> usize {
        match self {
            Self::Isr => 0,
            Self::Idle => 1,
            Self::Init => 2,
            Self::Unknown => 3,
            Self::Thread(no) => no.index().saturating_add(Self::OTHERS.len()),
        }
    }

    /// All that are no threads, by their places.
    pub const OTHERS: [Self; 4] = [Self::Isr, Self::Idle, Self::Init, Self::Unknown];
}
