// Package vips has the router's own sockets on its VIPs: for all modes but handoff, and for what cannot be spliced. It adds the
// VIPs' addresses to the host, serves what it accepts, and chooses surrogates by the snapshot in force.
package vips
