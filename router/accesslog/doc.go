// Package accesslog writes a record of each request and session to files, standard output, syslog and OpenTelemetry collectors.
//
// A Record is data alone: the kernel, or the proxy, says what has happened. A Writer turns records into what an output takes at once, in the
// goroutine of its caller, and puts that into a bounded queue; each output has a goroutine of its own that writes. So Write never waits for a
// disk or a collector, keeps nothing of a record, and what an output could not take is counted.
package accesslog
