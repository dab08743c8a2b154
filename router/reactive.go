package router

import (
	"context"
	"net"
	"net/netip"
	"sync"

	"baton/api"
	"baton/router/config"
	"baton/router/fallback"
	"baton/router/reactive"
	"baton/rpc"
)

// reactiveServer is a VIP of mode reactive: its server with its pool and its connection to the controllers.
type reactiveServer struct {
	*reactive.Server
	pool   *reactive.Pool
	client *rpc.Client
	stop   context.CancelFunc
	run    sync.WaitGroup
}

func (r *Router) newReactive(v *config.VIP, proxy *fallback.Server) *reactiveServer {
	c := v.Controller
	log := r.log.With("vip", v.Address)
	pool := reactive.NewPool(reactive.PoolOptions{Size: c.Legs, MaxAge: c.MaxAge, Local: c.Local, Log: log})
	client := reactive.Connect(c.Endpoints(), api.ControllerHello{Name: c.Name, Service: v.Address}, pool, log)
	s := &reactiveServer{pool: pool, client: client, Server: reactive.New(reactive.Options{Service: v.Address, Controller: client, Pool: pool, Proxy: proxy, Log: log})}
	ctx, cancel := context.WithCancel(context.Background())
	s.stop = cancel
	s.run.Go(func() { _ = client.Run(ctx) })
	return s
}

// controllerOf is what a VIP has of its controller; nil if it has none.
func (r *Router) controllerOf(vip netip.AddrPort) *api.RouterController {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.servers[vip]
	if l == nil {
		return nil
	}
	s, ok := l.server.(*reactiveServer)
	if !ok {
		return nil
	}
	handed, proxied := s.Counts()
	return &api.RouterController{Connected: s.client.Connected(), IdleLegs: s.pool.Idle(), HandedOver: handed, Proxied: proxied}
}

// Serve implements server, as Shutdown does.
func (s *reactiveServer) Serve(l net.Listener) error { return s.Server.Serve(l) }

func (s *reactiveServer) Shutdown(ctx context.Context) error {
	err := s.Server.Shutdown(ctx)
	s.stop()
	s.run.Wait()
	s.pool.Close()
	return err
}
