package api

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"time"
)

// RouterBackendDo is what to do with a surrogate.
type RouterBackendDo string

// The changes of surrogates.
const (
	RouterBackendAdd     RouterBackendDo = "add"     // to a pool
	RouterBackendRemove  RouterBackendDo = "remove"  // when its sessions have ended, or now
	RouterBackendWeight  RouterBackendDo = "weight"  // of it
	RouterBackendDrain   RouterBackendDo = "drain"   // no new sessions
	RouterBackendUndrain RouterBackendDo = "undrain" // new sessions again; it stays if it was to be removed
	RouterBackendReset   RouterBackendDo = "reset"   // what the file and the sources say applies again, of it or of all
)

// RouterBackendChange changes one surrogate of a running router.
type RouterBackendChange struct {
	Do        RouterBackendDo `json:"do"`
	Surrogate string          `json:"surrogate,omitempty"`
	Pool      string          `json:"pool,omitempty"`   // of add
	Address   netip.AddrPort  `json:"address,omitzero"` // of add
	Weight    *int            `json:"weight,omitempty"` // of weight, and add
	Now       bool            `json:"now,omitempty"`    // of remove
}

// RouterBackendResult is a surrogate after a change.
type RouterBackendResult struct {
	Do        RouterBackendDo `json:"do"`
	Surrogate string          `json:"surrogate,omitempty"`
	Present   bool            `json:"present"` // it is in a pool
	Pool      string          `json:"pool,omitempty"`
	Address   netip.AddrPort  `json:"address,omitzero"`
	Weight    int             `json:"weight"`
	Draining  bool            `json:"draining"`
	Sessions  int             `json:"sessions"`
	Saved     bool            `json:"saved"`             // the change is kept across a restart
	Problem   string          `json:"problem,omitempty"` // why it is not in its pool
}

// RouterSource is where surrogates of a pool are discovered.
type RouterSource struct {
	Name       string            `json:"name"`             // "dns web.example.net:80"
	Known      bool              `json:"known"`            // it has had a set, in this process or an earlier one
	Surrogates int               `json:"surrogates"`       // of its last set
	Success    time.Time         `json:"success,omitzero"` // the last one; zero: none in this process
	Due        time.Time         `json:"due,omitzero"`     // the next lookup
	Error      string            `json:"error,omitempty"`  // of the last outcome; its last set stays
	Failures   map[string]uint64 `json:"failures"`         // by kind
	Updates    uint64            `json:"updates"`          // sets that differed from the one before
}

// RouterChange is what the API has changed of a surrogate.
type RouterChange struct {
	Surrogate string         `json:"surrogate"`
	Pool      string         `json:"pool,omitempty"`   // that it was added to; "": it is not the API's
	Address   netip.AddrPort `json:"address,omitzero"` // of an added one
	Weight    *int           `json:"weight,omitempty"`
	Drain     bool           `json:"drain,omitempty"`
	Leaving   bool           `json:"leaving,omitempty"` // it is removed with its last session
	Gone      bool           `json:"gone,omitempty"`    // removed, although the file or a source has it
}

// check refuses what no router could do.
func (c *RouterBackendChange) check() error {
	missing := ""
	switch {
	case c.Do == RouterBackendReset:
	case c.Surrogate == "":
		missing = "surrogate"
	case c.Do == RouterBackendAdd && c.Pool == "":
		missing = "pool"
	case c.Do == RouterBackendAdd && !c.Address.IsValid():
		missing = "address"
	case c.Do == RouterBackendWeight && c.Weight == nil:
		missing = "weight"
	}
	if missing != "" {
		return fmt.Errorf("%w: %s is missing", ErrInvalid, missing)
	}
	switch c.Do {
	case RouterBackendAdd, RouterBackendRemove, RouterBackendWeight, RouterBackendDrain, RouterBackendUndrain, RouterBackendReset:
		return nil
	}
	return fmt.Errorf("%w: do: %q is none of add, remove, weight, drain, undrain and reset", ErrInvalid, c.Do)
}

func parseBackendChange(w http.ResponseWriter, r *http.Request) (RouterBackendChange, error) {
	c, err := parseBody[RouterBackendChange](w, r)
	if err == nil {
		err = c.check()
	}
	return c, err
}

// RouterBackend changes a surrogate. The error is ErrNotFound for an unknown surrogate or pool, and ErrConflict for a change that does
// not fit what there is.
func (c *Client) RouterBackend(ctx context.Context, change RouterBackendChange) (RouterBackendResult, error) {
	return ask[RouterBackendResult](ctx, c, http.MethodPost, "/v1/router/backend", change)
}
