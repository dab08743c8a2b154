// Package adversary asks what a client, a surrogate or a stranger off the path that wish it no good can do to innocent clients through
// the router, and through HAProxy in its place.
//
// The adversary plays scripts of raw segments (package script) among innocents of several kinds, who know every byte that is theirs. What
// must hold is looked at all the time, and when all have left: an innocent's answers are its own and of its request's pool, no leg is
// lost, no surrogate is out by somebody else's doing, nothing waits for ever.
package adversary
