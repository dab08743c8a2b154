// Package choice keeps the ways by which a relay's flows go on to their servers, where its configuration leaves them to it (via: auto).
//
// For each destination the relays behind this one are chosen as package plan does it, with this relay as the first: what lies between
// it and the client is the same for all ways. So a way is relays behind this one, none of which are needed where the server is as well
// connected to from here. Round-trip times are measured at a bounded rate, again and again as long as somebody asks for the
// destination, and of the last ones the least counts.
//
// A way is left for a better one only if that is better by a margin, at once when a relay on it cannot be reached, and taken again when
// that relay has been there for a while (the dwell time). A Chooser is that state machine: it does nothing by itself, and time is passed
// in. What workers look up for each flow is a Table, which does not change.
package choice
