// Command dashboards writes Grafana's dashboards of Baton, one for each part and one for all, into a folder: make dashboards.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "dashboards: FOLDER is missing; for example: go run ./packaging/dashboards packaging/grafana")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "dashboards:", err)
		os.Exit(1)
	}
}

// write writes a file for each dashboard.
func write(folder string) error {
	for _, b := range boards {
		d, err := b.build()
		if err != nil {
			return fmt.Errorf("%s: %w", b.part, err)
		}
		text, err := json.MarshalIndent(d, "", "  ")
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(folder, "baton-"+b.part+".json"), append(text, '\n'), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// board is a dashboard.
type board struct {
	part, title string
	rows        []row
}

type row struct {
	title  string
	panels []panel
}

// panel has a query, or several. The legend is of the series' labels: "{{pool}}".
type panel struct {
	title, unit string
	queries     []query
	number      bool // one number instead of a graph
}

type query struct{ expr, legend string }

// graph is a panel of one query.
func graph(title, unit, expr, legend string) panel {
	return panel{title: title, unit: unit, queries: []query{{expr, legend}}}
}

// number is a panel with one number.
func number(title, unit, expr string) panel {
	return panel{title: title, unit: unit, queries: []query{{expr, ""}}, number: true}
}

// source is the data source that the user chooses at the top of the dashboard.
var source = common.DataSourceRef{Type: cog.ToPtr("prometheus"), Uid: cog.ToPtr("${datasource}")}

// build makes the classic model, which every Grafana imports.
//
//lint:ignore SA1019 the second model is for Grafana 12 and newer
func (b board) build() (dashboard.Dashboard, error) {
	//lint:ignore SA1019 as above
	d := dashboard.NewDashboardBuilder(b.title).Uid("baton-"+b.part).Tags([]string{"baton"}).Time("now-1h", "now").Refresh("10s").
		Tooltip(dashboard.DashboardCursorSyncCrosshair).
		WithVariable(dashboard.NewDatasourceVariableBuilder("datasource").Label("Data source").Type("prometheus")).
		WithVariable(dashboard.NewQueryVariableBuilder("instance").Label("Instance").Datasource(source).
			Query(dashboard.StringOrMap{String: cog.ToPtr("label_values(" + b.info() + ", instance)")}).
			Refresh(dashboard.VariableRefreshOnTimeRangeChanged).Multi(true).IncludeAll(true)).
		Link(dashboard.NewDashboardLinkBuilder("Baton").Type(dashboard.DashboardLinkTypeDashboards).Tags([]string{"baton"}).AsDropdown(true).KeepTime(true))
	for _, r := range b.rows {
		d.WithRow(dashboard.NewRowBuilder(r.title))
		for _, p := range r.panels {
			d.WithPanel(p.build())
		}
	}
	return d.Build()
}

// info is the metric that each instance of the part has.
func (b board) info() string {
	if b.part == "all" {
		return `{__name__=~"baton_.+_build_info"}`
	}
	return "baton_" + b.part + "_build_info"
}

func (p panel) build() cog.Builder[dashboard.Panel] {
	if p.number {
		s := stat.NewPanelBuilder().Title(p.title).Unit(p.unit).Datasource(source).Span(4).Height(4)
		for _, q := range p.queries {
			s.WithTarget(prometheus.NewDataqueryBuilder().Expr(q.expr).Datasource(source).Instant())
		}
		return s
	}
	t := timeseries.NewPanelBuilder().Title(p.title).Unit(p.unit).Datasource(source).Span(8).Height(8).FillOpacity(10).Min(0)
	for i, q := range p.queries {
		t.WithTarget(prometheus.NewDataqueryBuilder().Expr(q.expr).LegendFormat(q.legend).Datasource(source).Range().RefId(string(rune('A' + i))))
	}
	return t
}
