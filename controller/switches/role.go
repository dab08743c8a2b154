package switches

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"baton/openflow"
	"baton/openflow/channel"
)

// SetRole takes a role at all switches, present and future. Generation is the election's number of this master: a switch that has seen a greater
// one refuses, and this controller stays what it is there. Without SetRole a server becomes master with the generation after the switch's own.
func (s *Server) SetRole(ctx context.Context, role openflow.Role, generation uint64) error {
	s.mu.Lock()
	s.role, s.election, s.fixed = role, generation, true
	s.roles++
	channels := map[uint64]*channel.Conn{}
	for id, m := range s.all {
		if m.conn != nil {
			channels[id] = m.conn
		}
	}
	s.mu.Unlock()
	failed := make(chan error, len(channels))
	for id, c := range channels {
		go func() {
			got, err := s.takeRole(ctx, c, id)
			if err == nil {
				err = s.roleIs(ctx, id, c, got)
			}
			failed <- err
		}()
	}
	var errs []error
	for range channels {
		errs = append(errs, <-failed)
	}
	return errors.Join(errs...)
}

// rolesSet is how often SetRole was called.
func (s *Server) rolesSet() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.roles
}

// askAgain takes the role that was set while a switch introduced itself: SetRole did not know it yet.
func (s *Server) askAgain(ctx context.Context, c *channel.Conn, sw *Switch) error {
	if s.rolesSet() == sw.asked {
		return nil
	}
	role, err := s.takeRole(ctx, c, sw.ID)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	sw.Role = role
	if m := s.all[sw.ID]; m != nil && m.conn == c {
		m.state.Role = role
	}
	return nil
}

// roleIs notes the role at a switch. A switch that this controller becomes master of is prepared first.
func (s *Server) roleIs(ctx context.Context, id uint64, c *channel.Conn, role openflow.Role) error {
	s.mu.Lock()
	m := s.all[id]
	if m == nil || m.conn != c || m.state.Role == role {
		s.mu.Unlock()
		return nil
	}
	m.state.Role = role
	sw := m.copy()
	s.mu.Unlock()
	if role == openflow.RoleMaster {
		if err := s.prepare(ctx, sw); err != nil {
			c.Close() // it connects again
			return fmt.Errorf("switch %016x: %w", id, err)
		}
	}
	s.tell(Event{Kind: RoleState, Switch: sw})
	return nil
}

// lostRole notes that a switch has made this controller a slave, which OpenFlow 1.3 tells only by refusing its messages.
func (s *Server) lostRole(id uint64, c *channel.Conn) {
	s.o.Log.Error("another controller is master of a switch: this one changes nothing there", "id", fmt.Sprintf("%016x", id))
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = s.roleIs(ctx, id, c, openflow.RoleSlave) // no preparation as a slave
}

// isSlave tells whether a switch has refused something because this controller is a slave there.
func isSlave(err error) bool {
	return slices.Contains(codes(err), openflow.BadRequestIsSlave)
}

// codes are those of all refusals in an error.
func codes(err error) []openflow.Code {
	var all []openflow.Code
	switch e := err.(type) { //nolint:errorlint // the tree is walked here
	case *channel.Refused:
		all = append(all, e.Answer.Code)
	case interface{ Unwrap() []error }:
		for _, one := range e.Unwrap() {
			all = append(all, codes(one)...)
		}
	case interface{ Unwrap() error }:
		return codes(e.Unwrap())
	}
	return all
}

// tries is how often a generation that follows the switch's is tried: another controller may do the same.
const tries = 3

// takeRole asks a switch for the role that this controller is to have, and returns the one that it got.
func (s *Server) takeRole(ctx context.Context, c *channel.Conn, id uint64) (openflow.Role, error) {
	s.mu.Lock()
	role, generation, fixed := s.role, s.election, s.fixed
	s.mu.Unlock()
	for try := 0; ; try++ {
		if !fixed {
			now, err := askRole(ctx, c, openflow.RoleNochange, 0)
			if err != nil {
				return 0, err
			}
			generation = next(now.Generation)
		}
		got, err := askRole(ctx, c, role, generation)
		if err == nil {
			return got.Role, nil
		}
		if !slices.Contains(codes(err), openflow.RoleRequestFailedStale) {
			return 0, err
		}
		s.stale.Add(1)
		if fixed {
			s.o.Log.Error("a switch has a newer master: this controller changes nothing there", "id", fmt.Sprintf("%016x", id),
				"generation", generation)
			if now, err := askRole(ctx, c, openflow.RoleNochange, 0); err == nil && s.o.Stale != nil {
				s.o.Stale(id, now.Generation)
			}
			return openflow.RoleSlave, nil
		}
		if try == tries {
			return 0, err
		}
	}
}

// next is the generation after the one that a switch has. All ones is what switches say that have none yet.
func next(generation uint64) uint64 {
	if generation == 1<<64-1 {
		return 1
	}
	return generation + 1
}

func askRole(ctx context.Context, c *channel.Conn, role openflow.Role, generation uint64) (*openflow.RoleReply, error) {
	reply, err := c.Request(ctx, &openflow.RoleRequest{Role: role, Generation: generation})
	if err != nil {
		return nil, fmt.Errorf("role: %w", err)
	}
	r, ok := reply.(*openflow.RoleReply)
	if !ok {
		return nil, errors.New("role: the answer is another message")
	}
	return r, nil
}
