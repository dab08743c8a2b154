// Package controllers is the forwarder's side of its OpenFlow channels: it connects to the controllers that are configured, lets
// others connect, and answers what is between a controller and its channel: the role and its fence, which asynchronous messages
// the controller gets, barriers. Everything else goes to the [Handler].
//
// Messages of all channels are handled one at a time, one of each channel in turn, so that a controller that floods takes no more
// than its share. A reply that does not fit into what may wait for a controller is kept, and nothing more of that controller is
// handled until it has read it; a packet-in that does not fit is dropped and counted. A controller that reads nothing loses its
// channel. So memory is bounded by the number of channels, and no channel waits for another's controller.
//
// Numbers of sections are those of the OpenFlow Switch Specification 1.3.5.
package controllers
