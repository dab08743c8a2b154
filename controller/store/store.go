// Package store keeps what a controller cannot derive from its switches: changes that operators have made, records of live handoffs,
// where hosts were, and which of several controllers is the master. It is a file, or an etcd cluster.
package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"time"

	"baton/api"
)

// Surrogate is what an operator has changed of a surrogate.
type Surrogate struct {
	Name   string `json:"name"`
	Weight *int   `json:"weight,omitempty"` // nil: that of the configuration
	State  string `json:"state,omitempty"`  // "": that of the configuration
}

// Handoff is a session that was handed over: what another controller needs to know it and to end it. The store reads no more of it than its number.
type Handoff struct {
	ID        uint64          `json:"id"`
	Client    netip.AddrPort  `json:"client"` // for people, as the surrogate
	Surrogate string          `json:"surrogate"`
	Session   json.RawMessage `json:"session"`
}

// Host is where a host was seen, until the lease of its place ends.
type Host struct {
	MAC       string              `json:"mac"`
	Addresses []netip.Addr        `json:"addresses"`
	At        api.ControllerPoint `json:"at"`
	Until     time.Time           `json:"until"`
}

// Term is whether this controller is the master.
type Term struct {
	Master     bool
	Generation uint64 // greater than that of every earlier master: for the switches
	Holder     string // the master, as far as is known
	Why        string // this one is not: the reason
}

// Status is the state of a store.
type Status struct {
	Kind    string // file or etcd
	Answers bool   // the last read or write did not fail
	Error   string // of the last one
	Pending int    // records that are not written yet
	Dropped uint64 // records dropped as another controller became the master
	Term    Term
}

// Config is what a store is made of.
type Config struct {
	// Name is this controller's. Two processes never have the same claim, even with one name.
	Name string
	File string // the embedded store's
	Etcd *Etcd  // nil: embedded
	// Mastered is called when the term changes, by one goroutine. It may be nil.
	Mastered func(Term)
	// Changed is called when others have changed a table, by one goroutine, after the change. It may be nil.
	Changed func(table string)
	Log     *slog.Logger // nil: none
}

const (
	// writeTimeout is how long a caller waits for the store.
	writeTimeout = 900 * time.Millisecond
	openTimeout  = 5 * time.Second
	// batch is how many records are written at once: etcd's default limit of a transaction is 128 operations.
	batch = 100
	// pause is between attempts to write.
	pause = 100 * time.Millisecond
)

// The names of tables.
const (
	Surrogates = "surrogates"
	Handoffs   = "handoffs"
	Hosts      = "hosts"
)

// op is a change of a record; without a value it is gone.
type op struct {
	table, key string
	value      []byte
}

var (
	errFenced     = errors.New("this controller is not the master any more")
	errUnanswered = errors.New("the store does not answer")
)

// backend is where records are.
type backend interface {
	kind() string
	load(ctx context.Context) (all []op, revision int64, err error)
	// write writes all or none. With a fence it fails with errFenced if that is not the revision of the master's claim.
	write(ctx context.Context, fence int64, ops []op) (revision int64, err error)
	// watch calls f with each change after a revision until it fails or the context ends.
	watch(ctx context.Context, after int64, f func(ops []op, revision int64)) error
	close() error
}

// Store keeps records.
type Store struct {
	Surrogates *Table[string, Surrogate]
	Handoffs   *Table[uint64, Handoff]
	Hosts      *Table[string, Host]

	backend  backend
	config   Config
	log      *slog.Logger
	tables   map[string]raw
	stop     context.CancelFunc
	ended    sync.WaitGroup
	elector  *elector // nil: always the master
	always   Term     // without an elector
	wake     chan struct{}
	notices  chan string
	announce chan struct{}

	mu       sync.Mutex
	revision map[[2]string]int64 // of what is in memory
	pending  map[[2]string][]byte
	flying   map[[2]string]bool // being written
	failure  error              // of the last read or write
	dropped  uint64
	stale    bool // memory has records that were dropped
	term     Term // as last announced
}

// Open opens a store and reads it. It fails if the store does not answer within five seconds.
func Open(ctx context.Context, c Config) (*Store, error) {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	s := &Store{
		config: c, log: c.Log, tables: map[string]raw{}, wake: make(chan struct{}, 1), notices: make(chan string, 64), announce: make(chan struct{}, 1),
		revision: map[[2]string]int64{}, pending: map[[2]string][]byte{}, flying: map[[2]string]bool{},
	}
	s.Surrogates = newTable(s, Surrogates, func(v Surrogate) string { return v.Name }, func(k string) string { return k })
	s.Handoffs = newTable(s, Handoffs, func(v Handoff) uint64 { return v.ID }, func(k uint64) string { return fmt.Sprintf("%016x", k) })
	s.Hosts = newTable(s, Hosts, func(v Host) string { return v.MAC }, func(k string) string { return k })
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	var err error
	var cluster *etcd
	if c.Etcd == nil {
		var file *bolt
		if file, err = openBolt(c.File); err == nil {
			s.backend, s.always = file, Term{Master: true, Generation: file.generation, Holder: c.Name}
		}
	} else if cluster, err = openEtcd(*c.Etcd); err == nil {
		s.backend = cluster
	}
	if err != nil {
		return nil, err
	}
	all, revision, err := s.backend.load(ctx)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("store: %w", err), s.backend.close())
	}
	s.replace(all, revision)
	s.run(cluster, revision)
	return s, nil
}

// run starts what goes on until Close.
func (s *Store) run(cluster *etcd, revision int64) {
	ctx, cancel := context.WithCancel(context.Background())
	s.stop = cancel
	if cluster != nil {
		s.elector = newElector(cluster, s.config.Name, s.config.Etcd.Timing, s.changedTerm, s.log)
		s.ended.Go(func() { s.elector.run(ctx) })
	}
	s.ended.Go(func() { s.follow(ctx, revision) })
	s.ended.Go(func() { s.writing(ctx) })
	s.ended.Go(func() { s.telling(ctx) })
	s.changedTerm()
}

// Close writes what is pending, lets another controller become the master at once, and closes the store.
func (s *Store) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), writeTimeout)
	defer cancel()
	for s.flush(ctx) && ctx.Err() == nil {
	}
	s.stop()
	s.ended.Wait()
	if s.elector != nil {
		s.elector.resign(ctx)
	}
	return s.backend.close()
}

// Term returns whether this is the master at this moment.
func (s *Store) Term() Term {
	if s.elector == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.always
	}
	return s.elector.now()
}

// Raise asks for a generation above one that a switch has seen: the store may have been lost. The term changes soon.
func (s *Store) Raise(above uint64) error {
	if s.elector != nil {
		s.elector.raise(above)
		return nil
	}
	s.mu.Lock()
	generation, err := s.backend.(*bolt).raise(above)
	s.always.Generation = max(s.always.Generation, generation)
	s.mu.Unlock()
	s.changedTerm()
	return err
}

// Status returns the store's state.
func (s *Store) Status() Status {
	term := s.Term()
	s.mu.Lock()
	defer s.mu.Unlock()
	status := Status{Kind: s.backend.kind(), Answers: s.failure == nil, Pending: len(s.pending) + len(s.flying), Dropped: s.dropped, Term: term}
	if s.failure != nil {
		status.Error = s.failure.Error()
	}
	return status
}

// ExpireHosts forgets the hosts whose lease has ended, and returns how many. It is for the master.
func (s *Store) ExpireHosts(now time.Time) (expired int) {
	for _, h := range s.Hosts.All() {
		if h.Until.Before(now) {
			s.Hosts.Forget(h.MAC)
			expired++
		}
	}
	return expired
}

// put writes one record for a caller who waits.
func (s *Store) put(ctx context.Context, o op) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	revision, err := s.backend.write(ctx, 0, []op{o})
	s.noteFailure(err)
	if err != nil {
		return api.ControllerErrorf(api.ControllerUnavailable, "the store has not confirmed the change: %v", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.apply([]op{o}, revision)
	return nil
}

func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// apply takes changes of the store into memory, but for what is older than what is there, and what will be written over. The caller
// holds the lock. It returns the tables that have changed.
func (s *Store) apply(ops []op, revision int64) (changed []string) {
	for _, o := range ops {
		t, key := s.tables[o.table], [2]string{o.table, o.key}
		if t == nil || revision < s.revision[key] {
			continue
		}
		s.noteRevision(key, revision)
		if _, waits := s.pending[key]; waits || s.flying[key] {
			continue
		}
		is, err := t.set(o.key, o.value)
		if err != nil {
			s.log.Error("a record of the store cannot be read", "err", err)
		}
		if is && !slices.Contains(changed, o.table) {
			changed = append(changed, o.table)
		}
	}
	return changed
}

// noteRevision remembers how new a record in memory is, or its absence: watched changes may be older. The caller holds the lock.
func (s *Store) noteRevision(key [2]string, revision int64) {
	if revision > s.revision[key] {
		s.revision[key] = revision
	}
}

// forgetRevisions drops those of records that are gone, once nothing older can arrive. The caller holds the lock.
func (s *Store) forgetRevisions(ops []op, revision int64) {
	for _, o := range ops {
		if key := [2]string{o.table, o.key}; o.value == nil && s.revision[key] <= revision {
			delete(s.revision, key)
		}
	}
}

// replace makes memory what the store has.
func (s *Store) replace(all []op, revision int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	there := map[[2]string]bool{}
	for _, o := range all {
		there[[2]string{o.table, o.key}] = true
	}
	for name, t := range s.tables {
		for _, key := range t.keys() {
			if !there[[2]string{name, key}] {
				all = append(all, op{table: name, key: key})
			}
		}
	}
	for _, table := range s.apply(all, revision) {
		s.tell(table)
	}
	s.forgetRevisions(all, revision)
}

// follow keeps memory like the store.
func (s *Store) follow(ctx context.Context, revision int64) {
	for ctx.Err() == nil {
		err := s.backend.watch(ctx, revision, func(ops []op, at int64) {
			revision = at
			s.noteFailure(nil)
			s.mu.Lock()
			defer s.mu.Unlock()
			for _, table := range s.apply(ops, at) {
				s.tell(table)
			}
			s.forgetRevisions(ops, at)
		})
		if ctx.Err() != nil {
			return
		}
		s.noteFailure(err)
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		if at, ok := s.reload(ctx); ok {
			revision = at
		}
	}
}

// reload makes memory what the store has now.
func (s *Store) reload(ctx context.Context) (revision int64, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	all, revision, err := s.backend.load(ctx)
	s.noteFailure(err)
	if err == nil {
		s.mu.Lock()
		s.stale = false
		s.mu.Unlock()
		s.replace(all, revision)
	}
	return revision, err == nil
}

// noteFailure remembers whether the store answers, and logs when that changes.
func (s *Store) noteFailure(err error) {
	switch {
	case errors.Is(err, context.Canceled):
		return // the caller did not wait for the answer
	case errors.Is(err, errFenced):
		err = nil // that is an answer
	}
	s.mu.Lock()
	before := s.failure
	s.failure = err
	s.mu.Unlock()
	switch {
	case err != nil && before == nil:
		s.log.Error("the store does not answer: the present state stays in force, and changes are refused", "store", s.backend.kind(), "err", err)
	case err == nil && before != nil:
		s.log.Info("the store answers", "store", s.backend.kind())
	}
}

// tell has Changed called. The caller holds the lock.
func (s *Store) tell(table string) {
	if s.config.Changed == nil {
		return
	}
	select {
	case s.notices <- table:
	default: // it is behind by 64 calls: they will show this change, too
	}
}

// telling calls the functions of the configuration.
func (s *Store) telling(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case table := <-s.notices:
			s.config.Changed(table)
		case <-s.announce:
			if !s.announceTerm() {
				break
			}
			if _, ok := s.reload(ctx); !ok { // memory has what was dropped
				time.AfterFunc(pause, func() { s.changedTerm() })
			}
		}
	}
}

// changedTerm says that the term may be another.
func (s *Store) changedTerm() {
	wake(s.announce)
	wake(s.wake)
}

// announceTerm reports whether memory has to be read again.
func (s *Store) announceTerm() (stale bool) {
	now := s.Term()
	s.mu.Lock()
	same := now == s.term
	s.term = now
	if now.Holder != "" && !now.Master && now.Holder != s.me() {
		s.dropPending(now.Holder)
	}
	stale = s.stale
	s.mu.Unlock()
	if !same && s.config.Mastered != nil {
		s.config.Mastered(now)
	}
	return stale
}

func (s *Store) me() string {
	if s.elector == nil {
		return s.config.Name
	}
	return s.elector.election.me
}
