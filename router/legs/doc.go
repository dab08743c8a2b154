// Package legs maintains the leg pools: for each surrogate, established server legs without a socket, ready to be
// spliced.
//
// A leg is opened by a SYN from a raw socket with exactly the options of its class; the kernel program handles the
// SYN-ACK and queues the leg. Pools grow and shrink with demand, within the configured bounds, and renew legs before
// the surrogate would close them: no socket answers its keep-alives, and a closed leg must not get a client.
package legs
