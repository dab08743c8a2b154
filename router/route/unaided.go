package route

import (
	"fmt"

	"baton/router/config"
)

// Limits of the kernel program's decisions.
const (
	MaxKernelHead = 2048 // bytes of a head
	MaxKernelPath = 1023 // bytes of a hashed path
	KernelMembers = 64   // surrogates of a pool for least-sessions
	PoolTables    = 256  // choice tables: one for each possible pool,
	KernelTables  = 1024 // followed by those of zones, which share tables
	KernelZones   = 1 << 17
)

// ZoneTables is how many tables the zones of a pool may need: one for each surrogate, and one for zones without an available one of their own.
func ZoneTables(p *config.Pool) int { return min(len(p.Nearest), len(p.Surrogates)+1) }

// unaided says why choosing from this pool needs user space, "" if it does not.
func (t *Table) unaided(v *config.VIP, p *config.Pool, pool int) string {
	for i := range p.Surrogates {
		if why := config.Unspliced(v, &p.Surrogates[i]); why != "" {
			return fmt.Sprintf("surrogate %s of pool %s can only be proxied: %s", p.Surrogates[i].Name, p.Name, why)
		}
	}
	return t.pools[pool]
}

// unchosen says for each pool why the kernel cannot choose from it, "" if it can.
func unchosen(cfg *config.Config) []string {
	out := make([]string, len(cfg.Pools))
	tables, zones := PoolTables, 0
	for i, p := range cfg.Pools {
		switch {
		case len(p.HashQuery) > 0:
			out[i] = fmt.Sprintf("pool %s hashes query parameters", p.Name)
		case p.Policy == config.LeastSessions && len(p.Surrogates) > KernelMembers:
			out[i] = fmt.Sprintf("pool %s has more than %d surrogates", p.Name, KernelMembers)
		case p.Policy == config.Nearest && (tables+ZoneTables(&p) > KernelTables || zones+len(p.Nearest) > KernelZones):
			out[i] = fmt.Sprintf("pool %s has more zones than there is room for", p.Name)
		case p.Policy == config.Nearest:
			tables, zones = tables+ZoneTables(&p), zones+len(p.Nearest)
		}
	}
	return out
}

// Unchosen says why the kernel cannot choose from a pool, by its index in Config.Pools, "" if it can. local reports whether a
// surrogate is on the router's host, where it has no legs.
func (t *Table) Unchosen(pool int, p *config.Pool, local func(surrogate string) bool) string {
	if t.pools[pool] != "" {
		return t.pools[pool]
	}
	if p.Keeps() {
		return fmt.Sprintf("pool %s keeps clients' addresses: a leg is opened for each client", p.Name)
	}
	for _, s := range p.Surrogates {
		if local(s.Name) {
			return fmt.Sprintf("surrogate %s of pool %s can only be proxied: it is on this host", s.Name, p.Name)
		}
	}
	return ""
}

// Unhashed says why the kernel leaves this path's choice of a surrogate to user space, "" if it does not.
func Unhashed(p *config.Pool, path []byte) string {
	if p.Policy == config.Hash && len(path) > MaxKernelPath {
		return fmt.Sprintf("the kernel hashes paths of at most %d bytes", MaxKernelPath)
	}
	return ""
}
