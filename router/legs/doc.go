// Package legs keeps the leg pools: for each surrogate, established server legs without a socket, ready to be spliced.
//
// A leg is opened by a SYN from a raw socket, with exactly the options that its class asks for; the kernel program takes the
// surrogate's answer and queues the leg. The pools size themselves to what is taken, within the configured bounds, and
// renew legs before the surrogate would close them: no socket answers its keep-alives, and a leg that it has closed must not meet a client.
package legs
