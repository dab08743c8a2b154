// Package model says what an OpenFlow 1.3 switch does with one packet, as plainly as it can be said: tables are searched entry by entry,
// fields are read from the bytes each time that they are asked for, headers are bytes that are moved. The kernel's programs are
// held against it, and users are told by it why a packet goes where it goes.
//
// Where the specification leaves something open, it says what Baton's forwarder does:
//   - a header that is cut short, or whose own numbers cannot be, is not there, and neither is what would be behind it;
//   - a packet whose header an action wants and does not find is dropped; what was put out before stays so. A VLAN tag that is not
//     there need not be popped;
//   - checksums are kept right. One that was wrong stays wrong by the same difference, and a UDP checksum of 0 stays 0;
//   - behind a label or a service tag nothing is seen.
//
// Meters are left out: they depend on time.
package model
