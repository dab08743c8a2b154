// Package model is a reference model of an OpenFlow 1.3 switch for single packets, written for clarity: tables are searched entry by entry,
// fields are parsed from the bytes each time they are needed, and headers are bytes to insert and remove. The kernel's programs are tested
// against it, and traces come from it.
//
// Where the specification leaves a choice, it follows Baton's forwarder:
//   - a header that is truncated or has impossible values is treated as absent, with everything behind it;
//   - a packet is dropped if an action needs a header that it lacks. What was output before stays sent. Popping an absent VLAN tag is a no-op;
//   - checksums are updated incrementally: a wrong one stays wrong by the same difference, and a UDP checksum of 0 stays 0;
//   - nothing behind an MPLS label or a service tag is parsed.
//
// Meters are not modelled, because they depend on time.
package model
