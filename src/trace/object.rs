//! The objects that a trace knows by name: threads, queues, mutexes and the rest.

use super::Interner;
use crate::abi::Addr;

/// Dense number of an object in [`ObjectTable`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectId(pub u32);

/// One registered object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    /// Its control block, as the trace stores the address.
    pub address: Addr,
    /// The format's number for its type.
    pub type_code: u32,
    /// The name of that type; `None` where the format's tables do not know the code.
    pub type_name: Option<&'static str>,
    /// Its name, cut at its terminator; empty where it has none. Hostile text: escape before printing.
    pub name: String,
    /// True once it was unregistered: its name still serves older events.
    pub deleted: bool,
    /// A thread's priority when it was registered.
    pub priority: Option<u16>,
    /// First parameter; its meaning depends on the type.
    pub param1: u64,
    /// Second parameter.
    pub param2: u64,
    /// True for a thread.
    pub is_thread: bool,
}

/// All registered objects, found by address.
#[derive(Debug, Clone, Default)]
pub struct ObjectTable {
    list: Vec<Object>,
    addresses: Interner,
    /// By the number of an address: the object that it means.
    by_address: Vec<ObjectId>,
}

impl ObjectTable {
    /// Adds an object. Where an address is registered twice the live entry is preferred, else the later one: an
    /// object that was deleted and created again can leave both behind.
    pub fn push(&mut self, object: Object) -> ObjectId {
        let id = ObjectId(u32::try_from(self.list.len()).unwrap_or(u32::MAX));
        let keep_older = self.at(object.address).is_some_and(|old| !old.deleted && object.deleted);
        let number = usize::try_from(self.addresses.intern(object.address)).unwrap_or(usize::MAX);
        match self.by_address.get_mut(number) {
            Some(place) if !keep_older => *place = id,
            Some(_) => {}
            None => self.by_address.push(id),
        }
        self.list.push(object);
        id
    }

    /// The object of this number.
    pub fn get(&self, id: ObjectId) -> Option<&Object> {
        self.list.get(usize::try_from(id.0).ok()?)
    }

    /// The object at this address.
    pub fn at(&self, address: Addr) -> Option<&Object> {
        self.id_at(address).and_then(|id| self.get(id))
    }

    /// The number of the object at this address.
    pub fn id_at(&self, address: Addr) -> Option<ObjectId> {
        self.by_address.get(usize::try_from(self.addresses.find(address)?).ok()?).copied()
    }

    /// All of them, in registry order.
    pub fn iter(&self) -> impl Iterator<Item = &Object> {
        self.list.iter()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// True where there are none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
}
