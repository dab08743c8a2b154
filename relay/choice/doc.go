// Package choice chooses the routes of a relay's flows to their servers, for entries with via: auto.
//
// For each destination it chooses the relays after this one as package plan does, with this relay as the first: the path between it and the
// client is the same for all routes. A route is empty where this relay should connect to the server itself. Round-trip times are measured
// at a bounded rate as long as the destination is in use, and the minimum of the last measurements counts.
//
// A route is replaced by one that is better by a margin, or at once when one of its relays is unreachable; it is used again when that relay
// has been up for the dwell time. A Chooser is this state machine: it does nothing by itself, and time is passed in. Workers look up routes
// in a Table, which does not change.
package choice
