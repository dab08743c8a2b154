// Package sockdiag lists the TCP and UDP sockets of this host and ends TCP connections, using sock_diag(7).
//
// Listing needs CONFIG_INET_DIAG, and CONFIG_INET_UDP_DIAG for UDP. Ending is SOCK_DESTROY (Linux 4.5 with CONFIG_INET_DIAG_DESTROY): the
// application gets ECONNABORTED, and the peer a reset where the kernel sends one (tcp_abort in net/ipv4/tcp.c: not in the states LAST-ACK
// and CLOSING).
package sockdiag
