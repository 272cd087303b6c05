package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/pergola-deploy/pergola/host/internal/journal"
	"github.com/pergola-deploy/pergola/host/internal/plugin"
)

const (
	// requestTimeout is how long a client may take to send its request, or to take the answer, and so how long requests under way can
	// hold up the end of the host.
	requestTimeout = 5 * time.Second
	// idleTimeout is how long a client may keep a connection that it does not use.
	idleTimeout = 30 * time.Second
	maxHeader   = 16 << 10
	maxBody     = 1 << 20
)

// Plugins are what a Server lets be controlled. *plugin.Set is one.
type Plugins interface {
	Details() ([]plugin.Detail, error)
	Reload(ctx context.Context, files ...string) ([]plugin.Reloaded, error)
}

var _ Plugins = (*plugin.Set)(nil)

// Jobs are the jobs that a Server lets be seen. *journal.Journal is one.
type Jobs interface {
	Jobs(namespace, name string) []journal.Job
}

var _ Jobs = (*journal.Journal)(nil)

// Server answers an operator.
type Server struct {
	dir, token string
	plugins    Plugins
	jobs       Jobs
	log        *slog.Logger
	listener   net.Listener
	listing    chan struct{} // has room for who is looking at the plugins
}

// Listen makes the token and then the socket in a directory that only the host's user can enter. Run answers; until then clients wait.
func Listen(ctx context.Context, dir string, plugins Plugins, jobs Jobs, log *slog.Logger) (_ *Server, err error) {
	token, err := createToken(dir)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, removeToken(dir))
		}
	}()
	path := filepath.Join(dir, SocketName)
	listener, err := (&net.ListenConfig{}).Listen(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("listen for control: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("listen for control: %w", err), listener.Close())
	}
	return &Server{dir: dir, token: token, plugins: plugins, jobs: jobs, log: log, listener: listener, listing: make(chan struct{}, 1)}, nil
}

// Run answers until ctx ends, and then removes the socket and the token. A reload under way ends with ctx, and not with the client that has asked for
// it: calls must not be cut short because somebody does not want to wait for them. It is called once.
func (s *Server) Run(ctx context.Context) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+jobsPath, s.listJobs)
	mux.HandleFunc("GET "+pluginsPath, s.list)
	mux.HandleFunc("POST "+reloadPath, func(w http.ResponseWriter, r *http.Request) { s.reload(ctx, w, r) })
	mux.HandleFunc("/", s.unknown)
	server := &http.Server{
		Handler:           s.guard(mux),
		ReadHeaderTimeout: requestTimeout,
		ReadTimeout:       requestTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
		// Else "OPTIONS *" is answered before anybody asks for the token.
		DisableGeneralOptionsHandler: true,
	}
	stopped := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(stopped)
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
		defer cancel()
		if server.Shutdown(grace) != nil {
			_ = server.Close() // the listener is closed already
		}
	})
	err := server.Serve(s.listener)
	if !stop() {
		<-stopped
	}
	if errors.Is(err, http.ErrServerClosed) {
		return removeToken(s.dir)
	}
	return errors.Join(fmt.Errorf("answer on the control socket: %w", err), removeToken(s.dir))
}

// Close removes the socket and the token of a Server that is not to be run.
func (s *Server) Close() error {
	err := s.listener.Close()
	if err != nil {
		err = fmt.Errorf("close the control socket: %w", err)
	}
	return errors.Join(err, removeToken(s.dir))
}

// list looks at the plugins for one client at a time: that may mean to read all programs for their checksums, and many clients must not
// take more of the processor than one.
func (s *Server) list(w http.ResponseWriter, r *http.Request) {
	select {
	case s.listing <- struct{}{}:
	case <-r.Context().Done():
		return // nobody waits for the answer
	}
	list := func() *PluginList {
		defer func() { <-s.listing }()
		return ListOf(s.plugins.Details())
	}()
	s.answer(w, http.StatusOK, list)
}

func (s *Server) listJobs(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	for name := range query {
		if name != queryNamespace && name != queryName {
			s.answer(w, http.StatusBadRequest, &Failure{Error: fmt.Sprintf("expected %s and %s as parameters, but found %.200q", queryNamespace, queryName, name)})
			return
		}
	}
	s.answer(w, http.StatusOK, JobsOf(s.jobs.Jobs(query.Get(queryNamespace), query.Get(queryName))))
}

func (s *Server) reload(ctx context.Context, w http.ResponseWriter, r *http.Request) {
	request := &ReloadRequest{}
	if err := decode(http.MaxBytesReader(w, r.Body, maxBody), request); err != nil {
		s.answer(w, http.StatusBadRequest, &Failure{Error: "read the request: " + err.Error()})
		return
	}
	s.log.Info("plugins are reloaded, as an operator asks for", "files", request.Files)
	done, err := s.plugins.Reload(ctx, request.Files...)
	if err != nil {
		s.answer(w, http.StatusServiceUnavailable, &Failure{Error: err.Error()})
		return
	}
	s.answer(w, http.StatusOK, resultOf(done, request.Files))
}

// decode reads one JSON object, or nothing, strictly: what is not understood must not be passed over in an order.
func decode(body io.Reader, into any) error {
	decoder := json.NewDecoder(body)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("expected one JSON object and nothing more")
	}
	return nil
}

func (s *Server) unknown(w http.ResponseWriter, r *http.Request) {
	s.answer(w, http.StatusNotFound, &Failure{Error: fmt.Sprintf("this host knows no %s %.200q; use the pergola of its own version", r.Method, r.URL.Path)})
}

func (s *Server) answer(w http.ResponseWriter, status int, body any) {
	// From here, and not for the whole request: a reload takes its time.
	err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(requestTimeout))
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if err := errors.Join(err, json.NewEncoder(w).Encode(body)); err != nil {
		s.log.Debug("answer on the control socket was not taken", "error", err.Error())
	}
}
