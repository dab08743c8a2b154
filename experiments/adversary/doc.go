// Package adversary tests what a malicious client, surrogate or off-path attacker can do to innocent clients through the router,
// and through HAProxy in its place.
//
// The adversary plays scripts of raw segments (package script) among several kinds of innocents, which verify every byte.
// Invariants are checked all the time, and after everyone has left: an innocent gets its own response from its request's pool, no
// leg is lost, no surrogate goes down because of someone else, nothing hangs.
package adversary
