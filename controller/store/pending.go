package store

import (
	"context"
	"strings"
	"time"
)

// later takes a record that is written by and by.
func (s *Store) later(o op) {
	now := s.Term()
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Holder != "" && !now.Master && now.Holder != s.me() {
		s.dropped++ // another controller is the master: its records count
		return
	}
	if _, err := s.tables[o.table].set(o.key, o.value); err == nil {
		s.pending[[2]string{o.table, o.key}] = o.value
	}
	wake(s.wake)
}

// dropPending forgets what this controller did not write as the master: another one is it. The caller holds the lock.
func (s *Store) dropPending(holder string) {
	if len(s.pending) == 0 {
		return
	}
	s.dropped += uint64(len(s.pending))
	s.log.Warn("records were dropped: another controller is the master", "records", len(s.pending), "master", strings.TrimSpace(holder))
	clear(s.pending)
	s.stale = true
}

// writing writes pending records.
func (s *Store) writing(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.wake:
		}
		for s.flush(ctx) {
		}
	}
}

// flush writes one batch. It reports whether there is more to do now.
func (s *Store) flush(ctx context.Context) (more bool) {
	fence := int64(0)
	if s.elector != nil {
		var ok bool
		if fence, ok = s.elector.fence(); !ok {
			return false // the next term begins with a wake
		}
	}
	s.mu.Lock()
	var ops []op
	for key, value := range s.pending {
		if !s.flying[key] && len(ops) < batch {
			ops = append(ops, op{key[0], key[1], value})
			delete(s.pending, key)
			s.flying[key] = true
		}
	}
	s.mu.Unlock()
	if len(ops) == 0 {
		return false
	}
	short, cancel := context.WithTimeout(ctx, writeTimeout)
	revision, err := s.backend.write(short, fence, ops)
	cancel()
	s.noteFailure(err)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range ops {
		key := [2]string{o.table, o.key}
		delete(s.flying, key)
		switch _, again := s.pending[key]; {
		case err == nil:
			s.noteRevision(key, revision)
		case !again:
			s.pending[key] = o.value
		}
	}
	if err == nil {
		return len(s.pending) > 0
	}
	wake(s.announce) // another controller may be the master: then they are dropped
	if ctx.Err() == nil {
		time.AfterFunc(pause, func() { wake(s.wake) })
	}
	return false
}
