package router

import (
	"errors"
	"io/fs"
	"os"

	"baton/datapath"
	kernel "baton/datapath/router"
	"baton/router/config"
	"baton/router/legs"
	"baton/router/quic"
)

// Unload ends the sessions that a stopped router has left in the kernel, resets both ends of each, and removes the state. It
// returns the number of sessions. Those of a version with another layout are not reset, nor are those of QUIC.
func Unload(cfg *config.Config) (int, error) {
	sessions, err := unload(cfg)
	quics, failed := quic.Unload(cfg)
	return sessions + quics, errors.Join(err, failed)
}

func unload(cfg *config.Config) (int, error) {
	if _, err := os.Stat(cfg.Listen.State); errors.Is(err, fs.ErrNotExist) {
		return 0, kernel.Remove(cfg.Listen.State)
	}
	dp, err := kernel.Open(kernel.Options{
		State: cfg.Listen.State, Sessions: cfg.Limits.Sessions, Pending: cfg.Limits.Pending, Legs: queueSize(cfg),
	})
	if errors.Is(err, datapath.ErrLayout) {
		return 0, kernel.Remove(cfg.Listen.State)
	}
	if err != nil {
		return 0, err
	}
	sessions, err := endSessions(dp)
	return sessions, errors.Join(err, dp.Close(), kernel.Remove(cfg.Listen.State))
}

// Remove removes the state of a router that has ended without sessions.
func Remove(cfg *config.Config) error {
	return errors.Join(kernel.Remove(cfg.Listen.State), quic.Remove(cfg))
}

// endSessions detaches the data path and resets both ends of each session.
func endSessions(dp *kernel.Router) (int, error) {
	for _, ifindex := range dp.Attached() {
		if err := dp.Detach(ifindex); err != nil {
			return 0, err
		}
	}
	return legs.End(dp)
}
