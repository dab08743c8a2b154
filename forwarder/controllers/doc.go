// Package controllers manages the forwarder's OpenFlow channels: it connects to the configured controllers, accepts connections of others, and
// handles what concerns a controller and its channel only: roles and generation ids, the selection of asynchronous messages, barriers.
// Everything else goes to the [Handler].
//
// Messages of all channels are handled one at a time, round-robin, so that a flood from one controller only takes its share. If a reply does
// not fit in a controller's queue it is kept, and no further message of that controller is handled until it has read it; packet-ins that do
// not fit are dropped and counted. A controller that does not read loses its channel. So memory is bounded by the number of channels, and no
// channel waits for another.
//
// Section numbers refer to the OpenFlow Switch Specification 1.3.5.
package controllers
