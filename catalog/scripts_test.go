package catalog

import (
	"encoding/json"
	"slices"
	"testing"

	"toolsearch/catalog/catalogtest"
	"toolsearch/subjects"
)

// TestScripts searches in many scripts and spellings. A query finds its tool as a match or, where near is set, only as
// the first of near.
func TestScripts(t *testing.T) {
	t.Parallel()
	tool := func(name, description string, parameters ...string) catalogtest.Element {
		return catalogtest.Tool("mcp-srv", name, description, parameters...)
	}
	// The tools beside which each is searched, so that words are neither in all tools nor in one alone.
	beside := []catalogtest.Element{
		tool("mcp__srv__alpha_report", "Writes the weekly report."), tool("mcp__srv__beta_archive", "Archives old things."),
		tool("mcp__srv__gamma_user", "Shows a user of the workspace.", "user_id"), tool("mcp__srv__delta_list", "Lists the rows of a table."),
	}
	for _, group := range []struct {
		name    string
		tools   []catalogtest.Element
		queries []struct{ query, want string }
		near    []struct{ query, want string }
		none    []string
	}{
		{
			name: "Chinese",
			tools: []catalogtest.Element{
				tool("mcp__srv__send", "发送消息到飞书群聊"), tool("mcp__srv__query", "查询日历中的会议安排"), tool("mcp__srv__doc", "新建云文档并授权"),
			},
			queries: []struct{ query, want string }{
				{"发送消息", "send"}, {"群聊", "send"}, {"查询会议", "query"}, {"日历", "query"}, {"云文档", "doc"}, {"文档", "doc"},
			},
			near: []struct{ query, want string }{{"发送消息 天气", "send"}, {"查询日历会议天气", "query"}},
			none: []string{"天气", "股票价格", "翻译"},
		}, {
			name:    "Japanese",
			tools:   []catalogtest.Element{tool("mcp__srv__push", "友だちにメッセージを送信する"), tool("mcp__srv__menu", "リッチメニューを作成する")},
			queries: []struct{ query, want string }{{"メッセージ 送信", "push"}, {"リッチメニュー", "menu"}, {"作成", "menu"}, {"ﾒｯｾｰｼﾞ", "push"}},
			near:    []struct{ query, want string }{{"メッセージ送信 天気", "push"}},
			none:    []string{"天気予報"},
		}, {
			name:    "Korean",
			tools:   []catalogtest.Element{tool("mcp__srv__send", "친구에게 메시지 보내기"), tool("mcp__srv__friends", "친구 목록 조회")},
			queries: []struct{ query, want string }{{"메시지 보내기", "send"}, {"친구 목록", "friends"}, {"조회", "friends"}},
			near:    []struct{ query, want string }{{"메시지 보내기 날씨", "send"}},
			none:    []string{"날씨"},
		}, {
			name:    "Cyrillic",
			tools:   []catalogtest.Element{tool("mcp__srv__post", "Опубликовать запись на стене"), tool("mcp__srv__friends", "Получить список друзей")},
			queries: []struct{ query, want string }{{"опубликовать запись", "post"}, {"СПИСОК ДРУЗЕЙ", "friends"}, {"Стене", "post"}},
			near:    []struct{ query, want string }{{"опубликавать запись", "post"}, {"список друзей погода", "friends"}},
			none:    []string{"погода"},
		}, {
			name:    "Greek",
			tools:   []catalogtest.Element{tool("mcp__srv__send", "Στέλνει ένα μήνυμα"), tool("mcp__srv__cal", "Δείχνει το ημερολόγιο της ομάδος")},
			queries: []struct{ query, want string }{{"μηνυμα", "send"}, {"ΜΉΝΥΜΑ", "send"}, {"ημερολόγιο", "cal"}, {"ΟΜΆΔΟΣ", "cal"}},
			near:    []struct{ query, want string }{{"στελνει μηνυμα καιρός", "send"}},
			none:    []string{"καιρός"},
		}, {
			name:    "Arabic",
			tools:   []catalogtest.Element{tool("mcp__srv__send", "إرسال رسالة إلى القناة"), tool("mcp__srv__cal", "عرض التقويم الأسبوعي")},
			queries: []struct{ query, want string }{{"إرسال رسالة", "send"}, {"ارسال", "send"}, {"رِسَالَة", "send"}, {"التقويم", "cal"}},
			near:    []struct{ query, want string }{{"إرسال رسالة الطقس", "send"}},
			none:    []string{"الطقس"},
		}, {
			name:    "Hindi",
			tools:   []catalogtest.Element{tool("mcp__srv__send", "संदेश भेजें"), tool("mcp__srv__cal", "कैलेंडर दिखाएं")},
			queries: []struct{ query, want string }{{"संदेश", "send"}, {"कैलेंडर दिखाएं", "cal"}},
			near:    []struct{ query, want string }{{"संदेश भेजें मौसम", "send"}},
			none:    []string{"मौसम"},
		}, {
			name:    "Turkish",
			tools:   []catalogtest.Element{tool("mcp__srv__city", "İstanbul için ISPARTA ılıman bilgisi"), tool("mcp__srv__mail", "İleti gönder")},
			queries: []struct{ query, want string }{{"istanbul", "city"}, {"İSTANBUL", "city"}, {"ILIMAN", "city"}, {"isparta", "city"}, {"ileti gonder", "mail"}},
			near:    []struct{ query, want string }{{"istanbul bilgisi quokka", "city"}},
		}, {
			name:    "German and French",
			tools:   []catalogtest.Element{tool("mcp__srv__street", "Findet die Straße und größere Plätze"), tool("mcp__srv__menu", "Liste des menus du café, à la crème brûlée")},
			queries: []struct{ query, want string }{{"strasse", "street"}, {"STRASSE", "street"}, {"Straße", "street"}, {"plätze", "street"}, {"cafe creme", "menu"}, {"CAFÉ", "menu"}, {"brûlée", "menu"}},
			near:    []struct{ query, want string }{{"Strase größere", "street"}, {"menus cafe wetter", "menu"}},
		}, {
			name:    "emoji",
			tools:   []catalogtest.Element{tool("mcp__srv__react", "Adds a reaction 👍 to a message"), tool("mcp__srv__rocket", "Launches 🚀 deployments")},
			queries: []struct{ query, want string }{{"👍 reaction", "react"}, {"launches🚀deployments", "rocket"}},
			near:    []struct{ query, want string }{{"adds 👍 reaction message quokka 🦘", "react"}},
			none:    []string{"👍", "🦘🦘"},
		}, {
			name:    "mixed scripts",
			tools:   []catalogtest.Element{tool("mcp__srv__lark", "用 GitHub API 创建 issue"), tool("mcp__srv__mix", "Отправить email через SMTP")},
			queries: []struct{ query, want string }{{"GitHub 创建", "lark"}, {"创建issue", "lark"}, {"отправить email", "mix"}, {"SMTP", "mix"}},
			near:    []struct{ query, want string }{{"创建 isue quokka", "lark"}, {"отправить emial", "mix"}},
		}, {
			name: "names",
			tools: []catalogtest.Element{
				tool("mcp__srv__repos.issues/create", "Opens a ticket."), tool("mcp__srv__files:read text", "Gives a file's text."), tool("mcp__srv__getUserProfile", "Gives one profile."),
			},
			queries: []struct{ query, want string }{
				{"repos.issues/create", "repos.issues/create"}, {"repos issues create", "repos.issues/create"}, {"mcp__srv__repos.issues/create", "repos.issues/create"},
				{"issues/create", "repos.issues/create"}, {"files:read text", "files:read text"}, {"read text", "files:read text"},
				{"getUserProfile", "getUserProfile"}, {"get user profile", "getUserProfile"}, {"get_user_profile", "getUserProfile"}, {"mcp__srv__get_user_profile", "getUserProfile"},
			},
			near: []struct{ query, want string }{
				{"repos.issues/craete", "repos.issues/create"}, {"getUserProfilePicture", "getUserProfile"}, {"get user proflie", "getUserProfile"},
			},
			none: []string{"orders.items/refund"},
		}, {
			name: "acronyms and versions",
			tools: []catalogtest.Element{
				tool("mcp__srv__XMLHTTPFetch", "Fetches over the net."), tool("mcp__srv__ec2_start", "Starts a machine."), tool("mcp__srv__s3_upload", "Uploads one object to a bucket."),
				tool("mcp__srv__oauth2Token", "Gives a token, as of OAuth 2.1."), tool("mcp__srv__listPRs", "Lists PRs and URLs of Python 3.12 projects."),
			},
			queries: []struct{ query, want string }{
				{"XMLHTTPFetch", "XMLHTTPFetch"}, {"xml http fetch", "XMLHTTPFetch"}, {"ec2 start", "ec2_start"}, {"S3", "s3_upload"}, {"oauth2 token", "oauth2Token"},
				{"oauth token", "oauth2Token"}, {"python 3.12", "listPRs"}, {"PRs", "listPRs"}, {"urls", "listPRs"},
			},
			near: []struct{ query, want string }{{"s3 upload v9", "s3_upload"}, {"python 3.13 projects", "listPRs"}, {"ec2 start i-0abc", "ec2_start"}},
			none: []string{"GRPC", "v9"},
		},
	} {
		t.Run(group.name, func(t *testing.T) {
			t.Parallel()
			s := newTestScope(t, append(slices.Clone(beside), group.tools...), &subjects.AssembleRequest{}, nil)
			for _, q := range group.queries {
				g := searchFor(t, s, 3, nil, q.query).Results[0]
				if len(g.Matches) == 0 || g.Matches[0] != "mcp__srv__"+q.want {
					t.Errorf("%q matches %v, near %v, unknown %q; want %s", q.query, g.Matches, g.Near, g.UnknownWords, q.want)
				}
			}
			for _, q := range group.near {
				g := searchFor(t, s, 3, nil, q.query).Results[0]
				if len(g.Matches) > 0 || len(g.Near) == 0 || g.Near[0] != "mcp__srv__"+q.want || len(g.UnknownWords) == 0 {
					t.Errorf("%q matches %v, near %v, unknown %q; want %s near", q.query, g.Matches, g.Near, g.UnknownWords, q.want)
				}
			}
			for _, query := range group.none {
				if g := searchFor(t, s, 3, nil, query).Results[0]; len(g.Matches)+len(g.Near) > 0 {
					t.Errorf("%q matches %v, near %v; want nothing", query, g.Matches, g.Near)
				}
			}
		})
	}
}

// TestUnknownWordsAsWritten checks that a word comes back as the query has it.
func TestUnknownWordsAsWritten(t *testing.T) {
	t.Parallel()
	s := newTestScope(t, []catalogtest.Element{
		catalogtest.Tool("mcp-srv", "mcp__srv__send", "发送消息到群聊 and posts a message"),
		{Toolset: "mcp-srv", Tool: json.RawMessage(`{"name":"mcp__srv__other","description":"Lists things."}`)},
	}, &subjects.AssembleRequest{}, nil)
	for query, want := range map[string][]string{
		"QuokKa's Ünïque zzz-9":     {"QuokKa", "s", "Ünïque", "zzz", "9"},
		"发送消息天气预报 quokka":           {"天气预报", "quokka"},
		"天气发送消息 quokka":             {"天气", "quokka"},
		"雨 quokka":                  {"雨", "quokka"},
		"getQuokkaProfile messages": {"getQuokkaProfile"},
		"Quokka quokka QUOKKA":      {"Quokka"},
	} {
		g := searchFor(t, s, 3, nil, query).Results[0]
		if len(g.Matches) > 0 || !slices.Equal(g.UnknownWords, want) {
			t.Errorf("%q matches %v, unknown %q, want %q", query, g.Matches, g.UnknownWords, want)
		}
	}
}
