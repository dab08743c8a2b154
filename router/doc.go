// Package router is the request router: it reads a client's request, picks the surrogate that should answer it and has the
// session spliced there (Boros et al. 2019, section 3).
//
// What the kernel can decide, it decides by itself, from tables that this package fills. The rest comes up through a tap, still
// unacknowledged: the router decides and gives the packets back, or lets an ordinary socket take the connection.
package router
