package telemetry

import (
	"context"
	"net/http"
	"net/http/pprof"

	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// ListenForProfiles opens an address and returns a server of what is below /debug/pprof/, as package net/http/pprof does, for the manager. Whoever
// reaches the address sees what is in the memory of the host: it is for this machine alone, and so are the names under which it may be asked.
func ListenForProfiles(ctx context.Context, address string) (*manager.Server, error) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("POST /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	// A profile takes as long as who asks for it wants.
	handler := HostNames{}.Guard("profiles are for localhost alone", mux)
	return Serve(ctx, "profiles", address, &http.Server{Handler: handler, ReadTimeout: RequestTimeout})
}
