// Package follow has what a controller says of the surrogates and of the distances to clients, for as long as that may be trusted.
package follow

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"baton/api"
	"baton/nameserver/config"
	"baton/policy"
	"baton/rpc"
)

// Source is where the state of the surrogates is from.
type Source string

// The sources.
const (
	Checks     Source = "checks"     // this name server's own
	Controller Source = "controller" // it is connected
	Kept       Source = "kept"       // what the controller said last: it is gone, and not for long
)

// View is what a controller has said, at one time. It is never changed.
type View struct {
	Source     Source
	Surrogates map[string]api.ControllerSurrogate // by name; also those of a controller that is gone for long: operators' changes hold
	Measured   []policy.Measured                  // distances; none by Checks
}

// Follower keeps a connection to a controller, and what it says. Its methods may be called from any goroutine; on nil there is no controller.
type Follower struct {
	keep   time.Duration
	log    *slog.Logger
	client *rpc.Client
	wake   chan struct{}
	now    func() time.Time

	mu          sync.Mutex
	url         string // of the controller that was connected last
	connected   bool
	heard       time.Time // when it was connected last; zero: never
	connections uint64
	malformed   uint64
	failure     error
	surrogates  map[string]api.ControllerSurrogate
	zones       []api.ControllerZone
}

// New returns a follower; nil without controllers.
func New(c *config.Controller, log *slog.Logger) *Follower {
	if c == nil {
		return nil
	}
	f := &Follower{keep: c.Keep, log: log, wake: make(chan struct{}, 1), now: time.Now, surrogates: map[string]api.ControllerSurrogate{}}
	f.client = rpc.New(rpc.Config{
		Controllers: c.Endpoints(), Topics: []api.ControllerTopic{api.TopicSurrogates, api.TopicDistances}, Log: log,
		Opened: f.opened, Whole: f.whole, Event: f.event, Lost: f.lost, Failed: f.failed,
	})
	return f
}

// settle is how long changes are collected: a busy controller tells many at once, and each new state of the policy costs as much as it has zones.
const settle = 50 * time.Millisecond

// Run follows the controller until the context ends, and calls changed after each change of the view.
func (f *Follower) Run(ctx context.Context, changed func()) {
	if f == nil {
		return
	}
	var connection sync.WaitGroup
	defer connection.Wait()
	connection.Go(func() { _ = f.client.Run(ctx) })
	source := f.source()
	for {
		aged := time.NewTimer(f.untilAged())
		select {
		case <-ctx.Done():
			aged.Stop()
			return
		case <-aged.C:
		case <-f.wake:
			aged.Stop()
			select {
			case <-ctx.Done():
				return
			case <-time.After(settle):
			}
		}
		if now := f.source(); now != source {
			f.log.Warn("the state of the surrogates has another source", "source", now, "before", source)
			source = now
		}
		changed()
	}
}

func (f *Follower) source() Source {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.sourceNow()
}

// sourceNow is the source in force. The lock is held.
func (f *Follower) sourceNow() Source {
	switch {
	case f.connected:
		return Controller
	case !f.heard.IsZero() && f.now().Sub(f.heard) < f.keep:
		return Kept
	}
	return Checks
}

// untilAged is when what is kept ends; long if nothing is.
func (f *Follower) untilAged() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.sourceNow() != Kept {
		return time.Hour
	}
	return f.keep - f.now().Sub(f.heard) + time.Millisecond
}

func (f *Follower) changed() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

func (f *Follower) opened(_ context.Context, c *rpc.Conn) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.url = c.URL
	return nil
}

// whole takes the state of a topic. With the last of them the connection counts: there is never a half of the old state and a half of the next.
func (f *Follower) whole(topic api.ControllerTopic, value json.RawMessage) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch topic {
	case api.TopicSurrogates:
		var all []api.ControllerSurrogate
		if f.parse(topic, value, &all) {
			f.surrogates = make(map[string]api.ControllerSurrogate, len(all))
			for _, u := range all {
				f.surrogates[u.Name] = u
			}
		}
	case api.TopicDistances:
		f.distances(value)
		f.connected, f.failure = true, nil
		f.connections++
		f.changed()
	}
}

func (f *Follower) event(topic api.ControllerTopic, value json.RawMessage) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch topic {
	case api.TopicSurrogates:
		var u api.ControllerSurrogate
		if !f.parse(topic, value, &u) {
			return
		}
		f.surrogates[u.Name] = u
	case api.TopicDistances:
		f.distances(value)
	default:
		return
	}
	f.changed()
}

// distances takes the zones. Their surrogates have no sessions: the other topic has.
func (f *Follower) distances(value json.RawMessage) {
	var d api.ControllerDistances
	if f.parse(api.TopicDistances, value, &d) {
		f.zones = slices.DeleteFunc(d.Zones, func(z api.ControllerZone) bool { return !z.Prefix.IsValid() })
	}
}

// parse reads a value; one that is malformed changes nothing.
func (f *Follower) parse(topic api.ControllerTopic, value json.RawMessage, to any) bool {
	if err := json.Unmarshal(value, to); err != nil {
		f.malformed++
		f.failure = fmt.Errorf("topic %s: %w", topic, err)
		f.log.Warn("what the controller says cannot be read", "topic", topic, "err", err)
		return false
	}
	return true
}

func (f *Follower) lost(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.connected {
		f.heard = f.now()
	}
	f.connected, f.failure = false, err
	f.changed()
}

func (f *Follower) failed(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failure = err
}

// View is what counts now.
func (f *Follower) View() View {
	if f == nil {
		return View{Source: Checks}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	v := View{Source: f.sourceNow(), Surrogates: make(map[string]api.ControllerSurrogate, len(f.surrogates))}
	for name, u := range f.surrogates {
		v.Surrogates[name] = u
	}
	if v.Source != Checks {
		for _, z := range f.zones {
			v.Measured = append(v.Measured, policy.Ranked(z.Prefix, z.Surrogates))
		}
	}
	return v
}

// Status is what is known of the controller; nil without one.
func (f *Follower) Status() *api.NameserverController {
	if f == nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	s := &api.NameserverController{
		URL: f.url, Connected: f.connected, Source: string(f.sourceNow()), Keep: f.keep, Connections: f.connections, Malformed: f.malformed,
		Surrogates: len(f.surrogates), Zones: len(f.zones),
	}
	switch {
	case f.connected:
		s.Heard = new(f.now())
	case !f.heard.IsZero():
		s.Heard = new(f.heard)
	}
	if f.failure != nil {
		s.Error = f.failure.Error()
	}
	return s
}
