//! The protocol: GDB remote serial, as a client.
