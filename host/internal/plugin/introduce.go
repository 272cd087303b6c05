package plugin

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	"github.com/pergola-deploy/pergola/host/internal/plugin/launch"
	"github.com/pergola-deploy/pergola/host/internal/plugin/session"
	"github.com/pergola-deploy/pergola/sdk/hostside"
)

// introduceTimeout bounds the introduction of a plugin.
const introduceTimeout = 10 * time.Second

// introduce asks the plugin for its description, configures it, and makes its claims.
func (p *Plugin) introduce(ctx context.Context, s *session.Session) (*Info, error) {
	ctx, cancel := context.WithTimeout(ctx, introduceTimeout)
	defer cancel()
	info, err := s.Info(ctx, p.settings.HostVersion)
	if err != nil {
		return nil, err
	}
	if err := p.recognize(info); err != nil {
		return nil, launch.Refuse(err)
	}
	if err := p.configure(ctx, s, info); err != nil {
		return nil, err
	}
	if err := p.settings.claim(p, info); err != nil {
		return nil, launch.Refuse(err)
	}
	s.Serve(info, session.Grants{HostCluster: p.hostClusterFor(info), Installation: p.settings.Installation})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.build = p.buildOf(info)
	return info, nil
}

// buildOf returns Build of a plugin with this description.
func (p *Plugin) buildOf(info *Info) string {
	digest := sha256.Sum256(slices.Concat([]byte(p.sum+"\x00"+info.Version+"\x00"), p.settings.Configs[info.Name]))
	return hex.EncodeToString(digest[:8])
}

// recognize checks that the plugin is the one of its earlier runs, and of its profile.
func (p *Plugin) recognize(info *Info) error {
	if before := p.Info(); before.Name != "" && (before.Name != info.Name || !slices.Equal(before.Types, info.Types)) {
		return fmt.Errorf("has become another plugin (%q for %q instead of %q for %q); restart the host to use it",
			info.Name, info.Types, before.Name, before.Types)
	}
	if p.program == nil {
		return nil
	}
	return launch.CheckName(p.settings.Profiles, p.file, info.Name)
}

// configure hands over the configuration document, in each run of the plugin.
func (p *Plugin) configure(ctx context.Context, s *session.Session, info *Info) error {
	document := p.settings.Configs[info.Name]
	if info.Capabilities.Configure {
		calls, err := s.Configure(ctx, document)
		info.Limits.MaxCalls = hostside.Lowest(info.Limits.MaxCalls, calls)
		return err
	}
	if len(document) > 0 {
		return fmt.Errorf("is refused: there is configuration for it, but the plugin %q takes none; remove "+
			"plugins.%s.config from the host configuration",
			info.Name, info.Name)
	}
	return nil
}

// hostClusterFor returns the access of a plugin to the host cluster; nil unless it asks for it and the operator grants
// it.
func (p *Plugin) hostClusterFor(info *Info) HostCluster {
	granted := p.settings.HostClusters[info.Name]
	switch {
	case granted != nil && !info.Capabilities.HostCluster:
		p.log.Warn("the plugin is granted access to the host cluster, which it does not ask for; remove plugins." +
			info.Name + ".hostCluster from the host configuration")
		return nil
	case granted == nil && info.Capabilities.HostCluster:
		p.log.Info("the plugin gets no access to the host cluster, which it asks for; " +
			"plugins." + info.Name + ".hostCluster of the host configuration grants it")
	}
	return granted
}
