package reactive

import (
	"context"
	"log/slog"
	"net"
	"sync"

	"baton/api"
	"baton/router/config"
	"baton/router/fallback"
	"baton/rpc"
)

// Service is a VIP of mode reactive: its server with its pool and its connection to the controllers. Shutdown ends it.
type Service struct {
	server *Server
	pool   *Pool
	client *rpc.Client
	stop   context.CancelFunc
	run    sync.WaitGroup
}

// NewService makes a VIP's service. proxy serves what cannot be handed over.
func NewService(v *config.VIP, proxy *fallback.Server, log *slog.Logger) *Service {
	c := v.Controller
	log = log.With("vip", v.Address)
	pool := NewPool(PoolOptions{Size: c.Legs, MaxAge: c.MaxAge, Local: c.Local, Log: log})
	client := Connect(c.Endpoints(), api.ControllerHello{Name: c.Name, Service: v.Address}, pool, log)
	s := &Service{
		pool: pool, client: client,
		server: New(Options{Service: v.Address, Controller: client, Pool: pool, Proxy: proxy, Log: log}),
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.stop = cancel
	s.run.Go(func() { _ = client.Run(ctx) })
	return s
}

// Status returns what the service has of its controller.
func (s *Service) Status() *api.RouterController {
	handed, proxied := s.server.Counts()
	return &api.RouterController{Connected: s.client.Connected(), IdleLegs: s.pool.Idle(), HandedOver: handed, Proxied: proxied}
}

// Serve serves clients until Shutdown.
func (s *Service) Serve(l net.Listener) error { return s.server.Serve(l) }

// Shutdown ends the server, then the connection to the controllers and the pool. The error is that of the server.
func (s *Service) Shutdown(ctx context.Context) error {
	err := s.server.Shutdown(ctx)
	s.stop()
	s.run.Wait()
	s.pool.Close()
	return err
}
