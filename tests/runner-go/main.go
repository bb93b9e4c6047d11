// A plugin runner made of Apache's library, unmodified, for tests/e2e/plugins/runners.rs.
package main

import (
	"encoding/json"
	"net/http"
	"time"

	pkgHTTP "github.com/apache/apisix-go-plugin-runner/pkg/http"
	"github.com/apache/apisix-go-plugin-runner/pkg/plugin"
	"github.com/apache/apisix-go-plugin-runner/pkg/runner"
	"go.uber.org/zap/zapcore"
)

type conf struct {
	Do   string `json:"do"`
	Text string `json:"text"`
}

type tester struct{ plugin.DefaultPlugin }

func (tester) Name() string { return "tester" }

func (tester) ParseConf(text []byte) (interface{}, error) {
	var read conf
	err := json.Unmarshal(text, &read)
	return read, err
}

func (tester) RequestFilter(given interface{}, w http.ResponseWriter, r pkgHTTP.Request) {
	conf := given.(conf)
	switch conf.Do {
	case "stop":
		w.Header().Add("X-Runner", "Go")
		w.WriteHeader(403)
		w.Write([]byte(conf.Text))
	case "header":
		r.Header().Set("X-Runner", conf.Text)
	case "rewrite":
		r.SetPath([]byte("/rewritten"))
		r.Header().Set("X-Runner", conf.Text)
		r.Args().Set("added", r.Args().Get("a"))
		r.RespHeader().Set("X-From-Runner", r.SrcIP().String())
	case "variable":
		value, err := r.Var(conf.Text)
		if err != nil {
			w.WriteHeader(500)
		}
		w.Write(append([]byte("<"), append(value, '>')...))
	case "body":
		body, err := r.Body()
		if err != nil {
			w.WriteHeader(500)
		}
		w.Write(append([]byte(conf.Text), body...))
	case "hang":
		time.Sleep(time.Hour)
	}
}

func (tester) ResponseFilter(given interface{}, w pkgHTTP.Response) {
	conf := given.(conf)
	body, err := w.ReadBody()
	if err != nil {
		w.WriteHeader(500)
		return
	}
	w.Header().Set("X-Runner", "Go")
	w.Write(append([]byte(conf.Text), body...))
}

func main() {
	if err := plugin.RegisterPlugin(&tester{}); err != nil {
		panic(err)
	}
	runner.Run(runner.RunnerConfig{LogLevel: zapcore.WarnLevel})
}
