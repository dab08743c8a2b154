package balance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"baton/api"
	"baton/balance/config"
	"baton/balance/weigh"
	"baton/daemon"
)

// Reload rereads the configuration and activates it; flows keep their links. An error changes nothing.
func (b *Balance) Reload() (api.ReloadResult, error) {
	result, err := b.reload()
	if err != nil {
		b.reloadsFailed.Add(1)
		b.log.Error("reload: the old configuration stays in force", "err", err)
		return result, api.Refused(err)
	}
	b.reloads.Add(1)
	b.log.Info("reloaded", "config", result.Config)
	return result, nil
}

func (b *Balance) reload() (api.ReloadResult, error) {
	if !b.up.Load() {
		return api.ReloadResult{}, errors.New("the balance is starting")
	}
	next, err := b.o.Load()
	if err != nil {
		return api.ReloadResult{}, err
	}
	for _, w := range next.Warnings {
		b.log.Warn(w)
	}
	answer := make(chan error, 1)
	b.inbox.put(func() { answer <- b.take(next) })
	select {
	case err = <-answer:
	case <-b.ended:
		err = fmt.Errorf("%s: the balance has ended", next.File)
	}
	if err != nil {
		return api.ReloadResult{}, err
	}
	// A restarted switch gets its tables a little later; until then it works as before.
	limited, cancel := context.WithTimeout(b.ctx, startWithin)
	defer cancel()
	if err := b.controller.Ready(limited); err != nil {
		b.log.Error("the configuration is in force, but the switch is not connected", "err", err)
	}
	return api.ReloadResult{Config: next.File}, nil
}

// take activates a configuration. It runs in the loop.
func (b *Balance) take(next *config.Config) error {
	if err := daemon.RestartError(next.File, config.Changed(b.state.cfg, next)...); err != nil {
		return err
	}
	before := b.switchConfig()
	k, err := b.state.configure(next)
	if err != nil {
		return err
	}
	was := b.state
	b.state, b.loaded = k, time.Now()
	if err := b.metered(); err != nil {
		b.state = was
		return err
	}
	b.measuring.weigher = weigh.Weigher{Config: next.Weights}
	b.watcher.Follow(next.Links)
	if after := b.switchConfig(); next.Datapath == config.Baton && !slices.Equal(before.Ports, after.Ports) {
		b.stopSwitch() // the kernel keeps forwarding meanwhile, and the next switch takes over
		b.startSwitch()
	}
	b.carryOut()
	b.publish()
	return nil
}
