package balance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"baton/balance/config"
	"baton/balance/host"
	"baton/balance/links"
)

// Report says how a configuration fits a host, and what a balance would change there now.
type Report struct {
	Links    []links.Link
	Findings []links.Finding
	Changes  []string // in order
}

// Check examines the host without changing anything. It ignores traces of the balance itself, running or left behind.
func Check(cfg *config.Config) (Report, error) {
	own, err := isOwn(cfg.Name)
	if err != nil {
		return Report{}, err
	}
	return check(cfg, own)
}

// check examines a host; own says whether the host has traces of this balance.
func check(cfg *config.Config, own bool) (r Report, err error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	w, err := links.Open(ctx, links.Options{Links: cfg.Links, Report: func([]links.Link) {}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return r, err
	}
	r.Links = w.List()
	w.Close()
	h, err := links.ReadHost(r.Links)
	if err != nil {
		return r, err
	}
	r.Findings = links.Check(cfg, h)
	if own {
		r.Findings = slices.DeleteFunc(r.Findings, func(f links.Finding) bool { return strings.HasPrefix(f.Key, "internal.") })
	}
	k, err := state{}.configure(cfg)
	if err != nil {
		return r, err
	}
	for i := range k.places {
		k.places[i].now = r.Links[i]
	}
	plan := host.Make(k.internal())
	for _, item := range slices.Concat(plan.Items, plan.Divert) {
		r.Changes = append(r.Changes, fmt.Sprint(item))
	}
	return r, nil
}

// isOwn reports whether the host has traces of a balance with that name.
func isOwn(name string) (bool, error) {
	h, err := host.Open(name, host.Options{})
	if errors.Is(err, host.ErrRunning) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	return h.Left(), h.Leave()
}
