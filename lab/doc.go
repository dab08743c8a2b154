// Package lab builds networks of Linux network namespaces on one machine: hosts, veth links, bridges, routers,
// impaired wires, processes, sockets and captures. Tests, experiments and the demo use it; it knows nothing of the
// parts of Baton.
//
// A test begins with New, anything else with Run:
//
//	l := lab.New(t)
//	client, router := l.Host("client"), l.Host("router")
//	l.Link(lab.End{Host: client, Addrs: []string{"10.1.0.2/24"}}, lab.End{Host: router, Addrs: []string{"10.1.0.1/24"}}, lab.LinkOptions{})
//
// What builds the network fails the test by itself (or ends Run with an error), what happens on it afterwards (Do,
// Dial, Exec, …) returns errors. Builders belong to the goroutine of the test, the rest to any.
//
// The processes of a host see a machine of their own: its host name, its /sys, its /etc/hosts and /etc/resolv.conf, and
// what they mount themselves; all else they share with the machine. A host has no nameserver unless it is given one.
//
// Nothing outlives a lab. Its namespaces are named after the process that owns them (baton-<pid>-<start time>-<n>-<host>),
// its processes live in PID namespaces that the kernel empties when the owner dies, and its files in one folder.
// What a killed owner could not remove (namespace names, mounts, that folder) the next lab on the machine sweeps away.
package lab
