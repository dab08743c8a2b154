package store

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
)

// Etcd is a cluster and the place of the store in it.
type Etcd struct {
	Endpoints          []string
	Prefix             string      // of the keys; default "/baton/controller/"
	TLS                *tls.Config // nil: none. The members' certificates have the names of the endpoints
	Username, Password string
	Timing             Timing // zero: DefaultTiming

	dial func(ctx context.Context, address string) (net.Conn, error) // nil: from this host
}

const defaultPrefix = "/baton/controller/"

// etcd is a store that controllers share.
type etcd struct {
	client *clientv3.Client
	prefix string
}

// openEtcd connects, and checks the format.
func openEtcd(c Etcd) (*etcd, error) {
	if len(c.Endpoints) == 0 {
		return nil, errors.New("store: no endpoint of etcd is given: endpoints: [https://10.0.0.1:2379]")
	}
	// A member that is back is used within a second; gRPC alone would wait for up to two minutes.
	options := []grpc.DialOption{grpc.WithConnectParams(grpc.ConnectParams{
		Backoff: backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second}, MinConnectTimeout: time.Second,
	})}
	if c.dial != nil {
		options = append(options, grpc.WithContextDialer(c.dial))
	}
	client, err := clientv3.New(clientv3.Config{
		Endpoints: c.Endpoints, TLS: c.TLS, Username: c.Username, Password: c.Password, Logger: zap.NewNop(),
		DialTimeout: openTimeout, DialKeepAliveTime: 10 * time.Second, DialKeepAliveTimeout: 3 * time.Second, PermitWithoutStream: true,
		DialOptions: options,
	})
	if err != nil {
		return nil, fmt.Errorf("store: etcd at %s: %w", strings.Join(c.Endpoints, ", "), err)
	}
	e := &etcd{client: client, prefix: c.Prefix}
	if e.prefix == "" {
		e.prefix = defaultPrefix
	}
	if !strings.HasSuffix(e.prefix, "/") {
		e.prefix += "/"
	}
	if err := e.checkFormat(c.Endpoints); err != nil {
		if errors.Is(err, errUnanswered) {
			err = errors.Join(err, c.diagnose())
		}
		return nil, errors.Join(err, client.Close())
	}
	return e, nil
}

func (e *etcd) checkFormat(endpoints []string) error {
	ctx, cancel := context.WithTimeout(context.Background(), openTimeout)
	defer cancel()
	key := e.prefix + "format"
	r, err := e.client.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(key), "=", 0)).
		Then(clientv3.OpPut(key, format)).Else(clientv3.OpGet(key)).Commit()
	if err != nil {
		return fmt.Errorf("store: etcd at %s: %w", strings.Join(endpoints, ", "), unanswered(err))
	}
	if r.Succeeded {
		return nil
	}
	if kvs := r.Responses[0].GetResponseRange().Kvs; len(kvs) == 1 && string(kvs[0].Value) != format {
		return fmt.Errorf("store: %s in etcd is %q, and this controller reads format %s", key, kvs[0].Value, format)
	}
	return nil
}

// unanswered gives the errors of a cluster without quorum, or that is not reached, plain words. Others are the cluster's own: no space, no
// permission.
func unanswered(err error) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	var told interface{ Code() codes.Code }
	if errors.As(err, &told) && told.Code() != codes.Unavailable && told.Code() != codes.DeadlineExceeded {
		return fmt.Errorf("the store refuses: %w", err)
	}
	return fmt.Errorf("%w: it has no quorum or is not reached (%w)", errUnanswered, err)
}

func (e *etcd) kind() string { return "etcd" }

// of returns the record that a key has, or false for what is no record.
func (e *etcd) of(key []byte) (table, name string, ok bool) {
	return strings.Cut(strings.TrimPrefix(string(key), e.prefix), "/")
}

func (e *etcd) load(ctx context.Context) (all []op, revision int64, err error) {
	r, err := e.client.Get(ctx, e.prefix, clientv3.WithPrefix())
	if err != nil {
		return nil, 0, unanswered(err)
	}
	for _, kv := range r.Kvs {
		if table, name, ok := e.of(kv.Key); ok {
			all = append(all, op{table, name, kv.Value})
		}
	}
	return all, r.Header.Revision, nil
}

func (e *etcd) write(ctx context.Context, fence int64, ops []op) (int64, error) {
	var conditions []clientv3.Cmp
	if fence != 0 {
		conditions = append(conditions, clientv3.Compare(clientv3.ModRevision(e.claimKey()), "=", fence))
	}
	var then []clientv3.Op
	for _, o := range ops {
		key := e.prefix + o.table + "/" + o.key
		if o.value == nil {
			then = append(then, clientv3.OpDelete(key))
		} else {
			then = append(then, clientv3.OpPut(key, string(o.value)))
		}
	}
	r, err := e.client.Txn(ctx).If(conditions...).Then(then...).Commit()
	if err != nil {
		return 0, unanswered(err)
	}
	if !r.Succeeded {
		return 0, errFenced
	}
	return r.Header.Revision, nil
}

// watch fails, so that the store is read again, when a member has lost the others: it would be silent for ever.
func (e *etcd) watch(ctx context.Context, after int64, f func([]op, int64)) error {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	for r := range e.client.Watch(ctx, e.prefix, clientv3.WithPrefix(), clientv3.WithRev(after+1)) {
		if err := r.Err(); err != nil {
			return unanswered(err)
		}
		// The changes of a revision are one change: a transaction.
		for i := 0; i < len(r.Events); {
			at := r.Events[i].Kv.ModRevision
			var ops []op
			for ; i < len(r.Events) && r.Events[i].Kv.ModRevision == at; i++ {
				o := op{}
				var ok bool
				if o.table, o.key, ok = e.of(r.Events[i].Kv.Key); !ok {
					continue
				}
				if r.Events[i].Type == clientv3.EventTypePut {
					o.value = r.Events[i].Kv.Value
				}
				ops = append(ops, o)
			}
			f(ops, at)
		}
	}
	return ctx.Err()
}

func (e *etcd) close() error { return e.client.Close() }

// The election's keys: who is the master changes once a term, its renewals all the time.
func (e *etcd) claimKey() string { return e.prefix + "election/claim" }
func (e *etcd) beatKey() string  { return e.prefix + "election/beat" }

// apply takes a key of the election into an observation.
func (e *etcd) apply(o *observation, key, value []byte, revision int64) error {
	switch string(key) {
	case e.claimKey():
		o.revision = revision
		return json.Unmarshal(value, &o.claim)
	case e.beatKey():
		o.beat = revision
	}
	return nil
}

// observe calls f with the election's state, and with each change, until it fails.
func (e *etcd) observe(ctx context.Context, within time.Duration, f func(observation)) error {
	short, cancelShort := context.WithTimeout(ctx, within)
	defer cancelShort()
	r, err := e.client.Get(short, e.prefix+"election/", clientv3.WithPrefix())
	if err != nil {
		return unanswered(err)
	}
	var o observation
	for _, kv := range r.Kvs {
		if err := e.apply(&o, kv.Key, kv.Value, kv.ModRevision); err != nil {
			return fmt.Errorf("%s: %w", kv.Key, err)
		}
	}
	f(o)
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	for r := range e.client.Watch(ctx, e.prefix+"election/", clientv3.WithPrefix(), clientv3.WithRev(r.Header.Revision+1)) {
		if err := r.Err(); err != nil {
			return unanswered(err)
		}
		for _, event := range r.Events {
			if err := e.apply(&o, event.Kv.Key, event.Kv.Value, event.Kv.ModRevision); err != nil {
				return fmt.Errorf("%s: %w", event.Kv.Key, err)
			}
		}
		f(o)
	}
	return ctx.Err()
}

// carryOut does what an election wants done. If it is not written, another one was faster: the result is what is there.
func (e *etcd) carryOut(ctx context.Context, a action, me string) (written bool, o observation, err error) {
	conditions := []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(e.claimKey()), "=", a.seen.revision)}
	then := []clientv3.Op{clientv3.OpPut(e.beatKey(), me)}
	o = a.seen
	if a.kind == doClaim {
		conditions = append(conditions, clientv3.Compare(clientv3.ModRevision(e.beatKey()), "=", a.seen.beat))
		o.claim = claim{Holder: me, Generation: a.generation}
		text, err := json.Marshal(o.claim)
		if err != nil {
			return false, o, err
		}
		then = append(then, clientv3.OpPut(e.claimKey(), string(text)))
	}
	r, err := e.client.Txn(ctx).If(conditions...).Then(then...).Else(clientv3.OpGet(e.prefix+"election/", clientv3.WithPrefix())).Commit()
	if err != nil {
		return false, o, unanswered(err)
	}
	if r.Succeeded {
		o.beat = r.Header.Revision
		if a.kind == doClaim {
			o.revision = r.Header.Revision
		}
		return true, o, nil
	}
	var found observation
	for _, kv := range r.Responses[0].GetResponseRange().Kvs {
		if err := e.apply(&found, kv.Key, kv.Value, kv.ModRevision); err != nil {
			return false, o, fmt.Errorf("%s: %w", kv.Key, err)
		}
	}
	return false, found, nil
}

// resign gives the mastership up, if it is still that of a claim.
func (e *etcd) resign(ctx context.Context, held observation) error {
	text, err := json.Marshal(claim{Generation: held.Generation})
	if err != nil {
		return err
	}
	_, err = e.client.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(e.claimKey()), "=", held.revision)).
		Then(clientv3.OpPut(e.claimKey(), string(text))).Commit()
	return unanswered(err)
}
