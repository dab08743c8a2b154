package peers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"baton/lab"
)

// EtcdMember is where a member of a cluster runs.
type EtcdMember struct {
	Host    *lab.Host
	Address string // by which the other members and the clients reach it; default: 127.0.0.1, for members on one host
}

// EtcdOptions change the cluster. The zero value is for a test that does not wait for elections.
type EtcdOptions struct {
	Heartbeat time.Duration // default: 50 ms (etcd's: 100 ms)
	Election  time.Duration // default: 500 ms (etcd's: 1 s)
	Port      int           // for clients; the next one is for members. Default: 2379; two more for each member that is on the same host
}

// EtcdCluster is a running cluster. Its members keep their data in the lab's folder, so that a killed one continues from it when it is restarted.
type EtcdCluster struct {
	Version string
	Members []*EtcdNode
}

// EtcdNode is a member of a running cluster.
type EtcdNode struct {
	*lab.Process
	Name     string // e0, e1, …
	Endpoint string // for clients: "http://10.0.0.1:2379"
	Dir      string

	host   *lab.Host
	peer   string // for members
	args   []string
	client *http.Client
}

// Etcd starts a cluster of one member for each place, and returns when it has a leader and all members serve.
func Etcd(l *lab.Lab, o EtcdOptions, places ...EtcdMember) *EtcdCluster {
	l.T().Helper()
	l.Need("etcd")
	c := &EtcdCluster{}
	if err := c.start(l, o, places); err != nil {
		l.T().Fatalf("peers: etcd: %v", err)
	}
	return c
}

func (c *EtcdCluster) start(l *lab.Lab, o EtcdOptions, places []EtcdMember) (err error) {
	if c.Version, err = Version("etcd"); err != nil {
		return err
	}
	onHost := map[*lab.Host]int{}
	var cluster []string
	for i, place := range places {
		port := orDefault(o.Port, 2379) + 2*onHost[place.Host]
		onHost[place.Host]++
		address := orDefault(place.Address, "127.0.0.1")
		if strings.Contains(address, ":") {
			address = "[" + address + "]"
		}
		m := &EtcdNode{Name: fmt.Sprintf("e%d", i), host: place.Host, client: place.Host.HTTPClient(2 * time.Second)}
		m.Endpoint, m.peer = fmt.Sprintf("http://%s:%d", address, port), fmt.Sprintf("http://%s:%d", address, port+1)
		if m.Dir, err = os.MkdirTemp(l.Dir(), "etcd-"+m.Name+"-"); err != nil {
			return err
		}
		cluster = append(cluster, m.Name+"="+m.peer)
		c.Members = append(c.Members, m)
		l.T().Cleanup(m.client.CloseIdleConnections)
	}
	for _, m := range c.Members {
		m.args = []string{
			"--name", m.Name, "--data-dir", m.Dir, "--logger", "zap", "--log-outputs", "stderr",
			"--listen-client-urls", m.Endpoint, "--advertise-client-urls", m.Endpoint,
			"--listen-peer-urls", m.peer, "--initial-advertise-peer-urls", m.peer,
			"--initial-cluster", strings.Join(cluster, ","), "--initial-cluster-token", l.Prefix(),
			"--heartbeat-interval", fmt.Sprint(orDefault(o.Heartbeat, 50*time.Millisecond).Milliseconds()),
			"--election-timeout", fmt.Sprint(orDefault(o.Election, 500*time.Millisecond).Milliseconds()),
		}
		if err := m.launch(); err != nil {
			return err
		}
	}
	for _, m := range c.Members {
		if err := m.Ready(); err != nil {
			return err
		}
	}
	return nil
}

// launch starts the process; it does not wait for the cluster.
func (m *EtcdNode) launch() (err error) {
	m.Process, err = m.host.Start(lab.Program{Path: "etcd", Args: m.args, Dir: m.Dir, Name: "etcd-" + m.Name})
	return err
}

// Endpoints are the addresses of all members, for clients: "http://10.0.0.1:2379".
func (c *EtcdCluster) Endpoints() []string {
	var all []string
	for _, m := range c.Members {
		all = append(all, m.Endpoint)
	}
	return all
}

// Leader is the member that leads, by the word of the first one that answers.
func (c *EtcdCluster) Leader(ctx context.Context) (*EtcdNode, error) {
	ids, leader := map[string]*EtcdNode{}, ""
	var errs []error
	for _, m := range c.Members {
		if m.ended() {
			continue
		}
		var status struct {
			Header struct {
				Member string `json:"member_id"`
			} `json:"header"`
			Leader string `json:"leader"`
		}
		if err := m.Call(ctx, "maintenance/status", struct{}{}, &status); err != nil {
			errs = append(errs, err)
			continue
		}
		ids[status.Header.Member] = m
		if status.Leader != "" && status.Leader != "0" {
			leader = status.Leader
		}
	}
	if m := ids[leader]; m != nil {
		return m, nil
	}
	return nil, errors.Join(append(errs, errors.New("no member leads"))...)
}

// Ready waits until the member serves, which it does only with a quorum and a leader.
func (m *EtcdNode) Ready() error {
	err := until(m.Process, func() error {
		resp, err := m.client.Get(m.Endpoint + "/health")
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		said, err := io.ReadAll(io.LimitReader(resp.Body, 4<<10))
		if err == nil && !bytes.Contains(said, []byte(`"health":"true"`)) {
			err = fmt.Errorf("%s says %s: %s", m.Endpoint, resp.Status, said)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("etcd member %s: %w\n%s", m.Name, err, m.Log())
	}
	return nil
}

// Call calls the member over etcd's JSON gateway: Call(ctx, "kv/range", …). Keys and values in it are base64, as
// encoding/json makes it of []byte.
func (m *EtcdNode) Call(ctx context.Context, method string, params, result any) error {
	body, err := json.Marshal(params)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, m.Endpoint+"/v3/"+method, bytes.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := m.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	said, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", resp.Status, said)
	}
	if err == nil {
		err = json.Unmarshal(said, result)
	}
	if err != nil {
		return fmt.Errorf("etcd member %s: %s: %w", m.Name, method, err)
	}
	return nil
}

// Pause stops the member as a machine without processor time does: its connections stay, and nobody answers on them.
// It has stopped when Pause returns.
func (m *EtcdNode) Pause() error {
	if err := m.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	return lab.Poll(5*time.Second, m.stopped)
}

// stopped returns an error as long as one of the member's threads runs.
func (m *EtcdNode) stopped() error {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", m.Pid()))
	if err != nil {
		return err
	}
	for _, t := range threads {
		status, err := os.ReadFile(t)
		if err == nil && !bytes.Contains(status, []byte("\nState:\tT")) {
			return fmt.Errorf("etcd member %s: it has not stopped", m.Name)
		}
	}
	return nil
}

// Resume lets a paused member go on.
func (m *EtcdNode) Resume() error { return m.Signal(syscall.SIGCONT) }

// Restart starts a member that was killed or has ended, with the data that it had, and does not wait for it: without a
// quorum it would not be ready.
func (m *EtcdNode) Restart() error {
	if !m.ended() {
		return fmt.Errorf("restart etcd member %s: it runs", m.Name)
	}
	return m.launch()
}

func (m *EtcdNode) ended() bool {
	select {
	case <-m.Done():
		return true
	default:
		return false
	}
}
