package route

import (
	"bytes"
	"fmt"

	"baton/router/config"
	"baton/router/head"
)

// Bounds of what the program in the kernel decides by itself.
const (
	MaxKernelHead = 2048 // bytes of a head that it reads
	MaxKernelPath = 1023 // bytes of a path that it hashes
	KernelMembers = 64   // surrogates of a pool that it compares the sessions of
	PoolTables    = 256  // choice tables: one for each pool there may be,
	KernelTables  = 1024 // and those of zones behind them
)

// unaided tells why a decision for this pool needs user space, "" when it does not.
func (t *Table) unaided(v *config.VIP, p *config.Pool, pool int) string {
	for i := range p.Surrogates {
		if why := config.Unspliced(v, &p.Surrogates[i]); why != "" {
			return fmt.Sprintf("surrogate %s of pool %s can only be proxied: %s", p.Surrogates[i].Name, p.Name, why)
		}
	}
	return t.pools[pool]
}

// unchosen tells of each pool why the kernel cannot choose of it, "" when it can.
func unchosen(cfg *config.Config) []string {
	out := make([]string, len(cfg.Pools))
	tables := PoolTables
	for i, p := range cfg.Pools {
		switch {
		case len(p.HashQuery) > 0:
			out[i] = fmt.Sprintf("pool %s hashes query parameters", p.Name)
		case p.Policy == config.LeastSessions && len(p.Surrogates) > KernelMembers:
			out[i] = fmt.Sprintf("pool %s has more than %d surrogates", p.Name, KernelMembers)
		case p.Policy == config.Nearest && tables+len(p.Nearest) > KernelTables:
			out[i] = fmt.Sprintf("pool %s has more zones than there are tables left", p.Name)
		case p.Policy == config.Nearest:
			tables += len(p.Nearest)
		}
	}
	return out
}

// Unchosen tells why the kernel cannot choose of a pool, by its index in Config.Pools, "" when it can. Local tells of a surrogate
// whether it is on the router's own host, where it has no legs.
func (t *Table) Unchosen(pool int, p *config.Pool, local func(surrogate string) bool) string {
	if t.pools[pool] != "" {
		return t.pools[pool]
	}
	for _, s := range p.Surrogates {
		if local(s.Name) {
			return fmt.Sprintf("surrogate %s of pool %s can only be proxied: it is on this host", s.Name, p.Name)
		}
	}
	return ""
}

// Unhashed tells why the kernel leaves the choice of a surrogate to user space for this path, "" when it does not.
func Unhashed(p *config.Pool, path []byte) string {
	if p.Policy == config.Hash && len(path) > MaxKernelPath {
		return fmt.Sprintf("the kernel hashes paths of at most %d bytes", MaxKernelPath)
	}
	return ""
}

// Unread tells why the program in the kernel does not look up a request with a head of so many bytes, "" when it does.
func Unread(req *head.Request, size int) string {
	switch {
	case req.Form != head.Origin:
		return "the target is not a path"
	case MethodID(req.Method) == 0:
		return "the kernel looks up GET, HEAD, POST, PUT and DELETE alone"
	case size > MaxKernelHead:
		return fmt.Sprintf("the head has more than %d bytes", MaxKernelHead)
	case req.ContentLength < 0:
		return "the body comes in chunks"
	case req.Upgrade:
		return "it asks for another protocol"
	}
	for name, value := range req.Fields.All() {
		if bytes.EqualFold(name, []byte("connection")) &&
			!bytes.EqualFold(value, []byte("close")) && !bytes.EqualFold(value, []byte("keep-alive")) {
			return "it has other connection options than close or keep-alive"
		}
	}
	return ""
}
