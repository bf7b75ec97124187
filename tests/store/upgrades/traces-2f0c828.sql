pragma auto_vacuum = incremental;
pragma journal_mode = wal;
pragma foreign_keys = off;
begin;
CREATE TABLE "_sqlite_migrations" (
   "id" INTEGER PRIMARY KEY,
   "migration_set" TEXT,
   "name" TEXT,
   "applied_at" TEXT
);
insert into "_sqlite_migrations" values (1, 'traces', 'm001_usage_bodies_and_rollups', '2026-11-23 06:50:44.272731+00:00');
insert into "_sqlite_migrations" values (2, 'traces', 'm002_find_the_calls_of_a_session', '2026-11-23 06:50:44.273008+00:00');
insert into "_sqlite_migrations" values (3, 'traces', 'm003_how_the_request_was_sent_and_what_is_kept', '2026-11-23 06:50:44.278921+00:00');
insert into "_sqlite_migrations" values (4, 'traces', 'm004_order_the_calls_of_an_agent_by_arrival', '2026-11-23 06:50:44.279295+00:00');
insert into "_sqlite_migrations" values (5, 'traces', 'm005_group_the_calls_of_a_run', '2026-11-23 06:50:44.279873+00:00');
insert into "_sqlite_migrations" values (6, 'traces', 'm006_who_pays_and_what_the_request_was_for', '2026-11-23 06:50:44.288193+00:00');
insert into "_sqlite_migrations" values (7, 'traces', 'm007_say_why_a_line_of_a_cost_is_not_billed', '2026-11-23 06:50:44.289155+00:00');
insert into "_sqlite_migrations" values (8, 'traces', 'm008_mark_what_is_estimated', '2026-11-23 06:50:44.290445+00:00');
insert into "_sqlite_migrations" values (9, 'traces', 'm009_book_each_pass_to_the_model_that_ran_it', '2026-11-23 06:50:44.299507+00:00');
insert into "_sqlite_migrations" values (10, 'traces', 'm010_estimate_the_streams_that_were_cut_before', '2026-11-23 06:50:44.299784+00:00');
insert into "_sqlite_migrations" values (11, 'traces', 'm011_sum_up_sessions', '2026-11-23 06:50:44.300076+00:00');
insert into "_sqlite_migrations" values (12, 'traces', 'm012_sum_up_days', '2026-11-23 06:50:44.300474+00:00');
insert into "_sqlite_migrations" values (13, 'traces', 'm013_keep_predecessors_and_cache_breaks', '2026-11-23 06:50:44.301876+00:00');
insert into "_sqlite_migrations" values (14, 'traces', 'm014_name_the_tools_that_failed', '2026-11-23 06:50:44.302634+00:00');
insert into "_sqlite_migrations" values (15, 'traces', 'm015_index_what_was_said', '2026-11-23 06:50:44.308327+00:00');
insert into "_sqlite_migrations" values (16, 'traces', 'm016_keep_what_sessions_could_have_saved', '2026-11-23 06:50:44.308931+00:00');
insert into "_sqlite_migrations" values (17, 'traces', 'm017_sum_up_savings_by_day', '2026-11-23 06:50:44.310666+00:00');
insert into "_sqlite_migrations" values (18, 'traces', 'm018_show_sums_of_days', '2026-11-23 06:50:44.315314+00:00');
insert into "_sqlite_migrations" values (19, 'traces', 'm019_note_what_retention_and_erasing_have_done', '2026-11-23 06:50:44.315636+00:00');
insert into "_sqlite_migrations" values (20, 'traces', 'm020_count_calls_since_the_beginning', '2026-11-23 06:50:44.315934+00:00');
CREATE UNIQUE INDEX "idx__sqlite_migrations_migration_set_name"
    ON "_sqlite_migrations" ("migration_set", "name");
CREATE TABLE usage (
            id integer primary key autoincrement,
            entry_id text not null unique,
            created_at text not null,
            proxy_endpoint_id text not null,
            slug text not null,
            model text,
            input_tokens integer,
            output_tokens integer,
            cache_creation_input_tokens integer,
            cache_read_input_tokens integer,
            cost_cents real,                -- null: not known, never a guess
            duration_ms real,
            status_code integer,            -- null: upstream gave none
            streamed integer not null,
            outcome text not null,
            usage_source text not null,
            ttfb_ms real,
            proxy_overhead_ms real,
            request_model text,
            upstream_request_id text,
            session_id text,
            agent_id text,
            client text,
            service_tier text,
            speed text,
            inference_geo text,
            retry_count integer,
            request_bytes integer,          -- on the wire
            response_bytes integer,
            error_type text,
            credential_hmac text,
            request_body_length integer,    -- bytes after decoding; null: the body was not kept
            response_body_length integer
        , body_notes text, path_query text, api_version text, betas text, max_tokens integer, message_count integer, tool_count integer, run_id text, stop_reason text, refusal_category text, thinking_tokens integer, cache_write_1h_tokens integer, web_search_requests integer, output_tokens_per_s real, effort text, thinking_budget integer, cache_ttl text, title_text text, parent_agent_id text, request_class text, prompt_id text, client_hints text, billing text, overage integer, upstream_organization_id text, workspace_id text, estimated_cents real);
insert into "usage" values (1, '01a2072b-d9b7-7d6b-94d4-a6398ce1c65c', '2026-11-23T06:50:44.023Z', '01a2072b-b968-7a79-ba15-c2a3a3c9a4f5', 'default', 'claude-sonnet-4-5', 12, 31, 9000, 0, 3.4251, 12.9, 200, 1, 'complete', 'final', 12.7, 0.8, 'claude-sonnet-4-5', 'req_011CUpgrade', '5f0c3a52-9a53-4d0e-8f9e-5a2b7c1d0e42', NULL, 'claude-cli/2.1.0', 'standard', NULL, NULL, NULL, 258, 1187, NULL, 'caec2fc18374e4d63eea7144984a8e87', 258, 1187, NULL, '/v1/messages', '2023-06-01', NULL, 1024, 1, 0, NULL, 'end_turn', NULL, NULL, 0, NULL, NULL, NULL, NULL, '5m', 'Why does the tower clock stop at “noon”?', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
insert into "usage" values (2, '01a2072b-db1b-7eac-918d-ae2ee39036ed', '2026-11-23T06:50:44.379Z', '01a2072b-b968-7a79-ba15-c2a3a3c9a4f5', 'default', 'claude-sonnet-4-5', 12, 17, 1200, 9000, 0.7491, 7.5, 200, 1, 'complete', 'final', 7.2, 0.5, 'claude-sonnet-4-5', 'req_011CUpgrade', '5f0c3a52-9a53-4d0e-8f9e-5a2b7c1d0e42', NULL, 'claude-cli/2.1.0', 'standard', NULL, NULL, NULL, 474, 1061, NULL, 'caec2fc18374e4d63eea7144984a8e87', 474, 1061, NULL, '/v1/messages', '2023-06-01', NULL, 1024, 3, 0, NULL, 'end_turn', NULL, NULL, 0, NULL, NULL, NULL, NULL, '5m', 'Why does the tower clock stop at “noon”?', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
insert into "usage" values (3, '01a2072b-db8c-7dc1-8690-ca52e4a34d7c', '2026-11-23T06:50:44.492Z', '01a2072b-b968-7a79-ba15-c2a3a3c9a4f5', 'default', 'claude-sonnet-4-5', 12, 23, 11000, 0, 4.1631, 5.3, 200, 1, 'complete', 'final', 5.1, 0.4, 'claude-sonnet-4-5', 'req_011CUpgrade', '5f0c3a52-9a53-4d0e-8f9e-5a2b7c1d0e42', NULL, 'claude-cli/2.1.0', 'standard', NULL, NULL, NULL, 575, 1072, NULL, 'caec2fc18374e4d63eea7144984a8e87', 575, 1072, NULL, '/v1/messages', '2023-06-01', NULL, 1024, 5, 0, NULL, 'end_turn', NULL, NULL, 0, NULL, NULL, NULL, NULL, '5m', 'And at midnight?', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
insert into "usage" values (4, '01a2072b-dbff-7a0c-9557-e43d2cd19100', '2026-11-23T06:50:44.607Z', '01a2072b-b968-7a79-ba15-c2a3a3c9a4f5', 'default', 'claude-sonnet-4-5', 12, 8, 0, 0, 0.0156, 4.2, 200, 0, 'complete', 'final', 4.0, 0.3, 'claude-sonnet-4-5', 'req_011CUpgrade', NULL, NULL, 'claude-cli/2.1.0', 'standard', NULL, NULL, NULL, 210, 448, NULL, 'caec2fc18374e4d63eea7144984a8e87', 210, 448, NULL, '/v1/messages', '2023-06-01', NULL, 1024, 1, 0, NULL, 'end_turn', NULL, NULL, 0, NULL, NULL, NULL, NULL, '5m', 'Which oil?', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
insert into "usage" values (5, '01a2072b-dc6e-7f1d-8a41-ad526f321b07', '2026-11-23T06:50:44.718Z', '01a2072b-b968-7a79-ba15-c2a3a3c9a4f5', 'default', 'clock-model-0', 12, 5, 0, 0, NULL, 4.8, 200, 0, 'complete', 'final', 4.6, 0.3, 'clock-model-0', 'req_011CUpgrade', NULL, NULL, 'claude-cli/2.1.0', 'standard', NULL, NULL, NULL, 209, 392, NULL, 'caec2fc18374e4d63eea7144984a8e87', 209, 392, NULL, '/v1/messages', '2023-06-01', NULL, 1024, 1, 0, NULL, 'end_turn', NULL, NULL, 0, NULL, NULL, NULL, NULL, '5m', 'Which spring?', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
insert into "usage" values (6, '01a2072b-dd42-731e-ae07-e78e368e2be1', '2026-11-23T06:50:44.930Z', '01a2072b-b968-7a79-ba15-c2a3a3c9a4f5', 'default', NULL, NULL, NULL, NULL, NULL, 0.0, 1.8, 529, 0, 'upstream_error', 'none', 1.4, 0.3, 'claude-sonnet-4-5', 'req_011CUpgrade', NULL, NULL, 'claude-cli/2.1.0', NULL, NULL, NULL, NULL, 211, 75, 'overloaded_error', 'caec2fc18374e4d63eea7144984a8e87', 211, 75, NULL, '/v1/messages', '2023-06-01', NULL, 1024, 1, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '5m', 'Which bell?', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
insert into "usage" values (7, '01a2072b-ddab-7f30-a64a-d0e807e40223', '2026-11-23T06:50:45.035Z', '01a2072b-b968-7a79-ba15-c2a3a3c9a4f5', 'default', NULL, NULL, NULL, NULL, NULL, 0.0, 1.4, 400, 0, 'upstream_error', 'none', 1.3, 0.2, NULL, 'req_011CUpgrade', NULL, NULL, 'claude-cli/2.1.0', NULL, NULL, NULL, NULL, 22, 17, NULL, 'caec2fc18374e4d63eea7144984a8e87', 22, 17, NULL, '/v1/messages', '2023-06-01', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
insert into "usage" values (8, '01a2072b-de15-78dc-8c8b-4ad69c92d9f6', '2026-11-23T06:50:45.141Z', '01a2072b-b968-7a79-ba15-c2a3a3c9a4f5', 'default', 'claude-sonnet-4-5', 12, 7, 0, 0, 0.0141, 1.9, 200, 1, 'upstream_interrupted', 'estimated', 1.7, 0.3, 'claude-sonnet-4-5', 'req_011CUpgrade', NULL, NULL, 'claude-cli/2.1.0', 'standard', NULL, NULL, NULL, 232, 814, 'upstream_interrupted', 'caec2fc18374e4d63eea7144984a8e87', 232, 814, NULL, '/v1/messages', '2023-06-01', NULL, 1024, 1, 0, NULL, NULL, NULL, NULL, 0, NULL, NULL, NULL, NULL, '5m', 'Count the strokes.', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0.0105);
CREATE INDEX usage_created_at on usage (created_at);
CREATE INDEX usage_proxy_endpoint on usage (proxy_endpoint_id, created_at);
CREATE INDEX usage_status_code on usage (status_code, created_at);
CREATE TABLE pieces (
            id integer primary key autoincrement,
            hash blob not null unique,      -- SHA-256, first 16 bytes
            text text not null
        );
insert into "pieces" values (1, X'577F22CBD7701FC19D51559C5D5F1587', '{"model":"claude-sonnet-4-5","max_tokens":1024,');
insert into "pieces" values (2, X'37D55AD8516FBB3424CB8B3295950653', '"system":[{"type":"text","text":"You mend clocks. Answer in few words."');
insert into "pieces" values (3, X'F7F99AFF703761FA8CD6805F1293E7F7', ',"cache_control":{"type":"ephemeral"}}],"messages":[');
insert into "pieces" values (4, X'D939903F478B68710885DEFE27816C3D', '{"role":"user","content":"Why does the tower clock stop at “noon”?"}],"stream":true}');
insert into "pieces" values (5, X'303A7AA70B29EF0005CAF6DE5215F7BC', '{"role":"user","content":"Why does the tower clock stop at “noon”?"},');
insert into "pieces" values (6, X'2189FA2389C77F152577733740EAD87F', '{"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"Bash","input":{"command":"tick"}}]},');
insert into "pieces" values (7, X'FB5891F32B548092E60C349C86F54F7E', '{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","is_error":true,"content":"tock\n\ttöck"');
insert into "pieces" values (8, X'8BDA54867FE2358BF37C40E9FD4BC975', '}]}],"stream":true}');
insert into "pieces" values (9, X'68CC6509ECB807222C4F47EFE8601906', '"system":[{"type":"text","text":"You mend clocks. Answer in few words. Be kind."');
insert into "pieces" values (10, X'4FAF9803586B12783341E39A5E223780', '}]},');
insert into "pieces" values (11, X'C9F20FC8367EA3594F5D37BEC7DEA642', '{"role":"assistant","content":"The pendulum."},');
insert into "pieces" values (12, X'BB5F424C02E516ADE335EB8B8F18AB88', '{"role":"user","content":"And at midnight?"}],"stream":true}');
insert into "pieces" values (13, X'C9D94ED24CFC4714CD181BAAC81E0F99', '{"role":"user","content":"Which oil?"');
insert into "pieces" values (14, X'BA29E19EA5B5647705FDC87DECD603D2', '}]}');
insert into "pieces" values (15, X'98E4A0638CA2A02DAE2AB4E7642DC5A3', '{"model":"clock-model-0","max_tokens":1024,');
insert into "pieces" values (16, X'29184E8CC8DBDC19AE718558E22BF698', '{"role":"user","content":"Which spring?"');
insert into "pieces" values (17, X'8F1EE89B2B955D02B262A0871A0DBC22', '{"role":"user","content":"Which bell?"');
insert into "pieces" values (18, X'72ABA77B7B30EBE9EB83F0F18D1970BA', '{"role":"user","content":"Count the strokes."}],"stream":true}');
CREATE TABLE segments (
            id integer primary key autoincrement,
            hash blob not null unique,      -- of the hashes of its pieces
            piece_ids text not null         -- JSON array, in order
        );
insert into "segments" values (1, X'6051BBA52F04284AF869BCE9D7CE52EB', '[1,2,3,4]');
insert into "segments" values (2, X'640939EA544CC47D25E5D281EA8C0876', '[1,2,3,5,6,7,8]');
insert into "segments" values (3, X'75463A8073734925AF39027158A29566', '[1,9,3,5,6,7,10,11,12]');
insert into "segments" values (4, X'B21035550A54FAB23C8BC5D4961EFD82', '[1,2,3,13,14]');
insert into "segments" values (5, X'C6D43363F158EC80993D962C90112049', '[15,2,3,16,14]');
insert into "segments" values (6, X'E625DD20CD3C49380CD3584B68404532', '[1,2,3,17,14]');
insert into "segments" values (7, X'526FE2A9C992072BECD512F033D85CA6', '[1,2,3,18]');
CREATE TABLE request_bodies (
            usage_id integer primary key references usage(id),
            sha256 blob not null,
            segment_ids text,               -- JSON array, in order; null: see whole
            whole blob                      -- a body that is not text
        );
insert into "request_bodies" values (1, X'EDA5732C0AA22CF0B3CE70A5D9D635363BFE7C3FB00C5714C128E75E5C799D57', '[1]', NULL);
insert into "request_bodies" values (2, X'7BE8DD9024C1CFBD8DBA903D09478582DCB31F84B1470113AF7353D42F93F05D', '[2]', NULL);
insert into "request_bodies" values (3, X'89E809F8108318BBB2BA160617DF51B275DBA7F6EB5D8321316573D914172AB8', '[3]', NULL);
insert into "request_bodies" values (4, X'267EE7D09FF63A5B3A52CE2840A2DC080CE4B18EB3D7705ED487466450956BAB', '[4]', NULL);
insert into "request_bodies" values (5, X'76407364CEB1303952A67233E1AB8A9D1CEDC99E1321F1B9070DF63B85405CC8', '[5]', NULL);
insert into "request_bodies" values (6, X'DFEA5493C801AD2C9A34E9227901C04148ED1BAD56105C8AFBA971F349C53D94', '[6]', NULL);
insert into "request_bodies" values (7, X'7BC753603C203752FC489E68CB976171E99162F18C38B8B9A29E98ACD10E91CF', NULL, X'7B226D6F64656C223A2022FF00206E6F207465787422');
insert into "request_bodies" values (8, X'47E125E2758DA8D32A52622A522BFB856CF1748E20929755E0092F5803412466', '[7]', NULL);
CREATE TABLE response_bodies (
            usage_id integer primary key references usage(id),
            sha256 blob not null,
            body text                       -- or a BLOB, when it is not text
        );
insert into "response_bodies" values (1, X'E6D106F5809F0ACCF03B6604DE74C3B25B9B6BD7042CF5ED5217FE3835814DCF', 'event: message_start
data: {"type": "message_start", "message": {"type": "message", "id": "msg_01", "role": "assistant", "model": "claude-sonnet-4-5", "content": [], "stop_reason": null, "usage": {"input_tokens": 12, "cache_creation_input_tokens": 9000, "cache_read_input_tokens": 0, "cache_creation": {"ephemeral_5m_input_tokens": 9000, "ephemeral_1h_input_tokens": 0}, "output_tokens": 1, "service_tier": "standard"}}}

event: content_block_start
data: {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}

event: content_block_delta
data: {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "The pen"}}

event: content_block_delta
data: {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "dulum "}}

event: content_block_delta
data: {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "rests."}}

event: content_block_stop
data: {"type": "content_block_stop", "index": 0}

event: message_delta
data: {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 31}}

event: message_stop
data: {"type": "message_stop"}

');
insert into "response_bodies" values (2, X'32E10D73EEAFD32052B29DCD5E81A3E7CD7230734487CE58AE69B6B7B3B182F3', 'event: message_start
data: {"type": "message_start", "message": {"type": "message", "id": "msg_01", "role": "assistant", "model": "claude-sonnet-4-5", "content": [], "stop_reason": null, "usage": {"input_tokens": 12, "cache_creation_input_tokens": 1200, "cache_read_input_tokens": 9000, "cache_creation": {"ephemeral_5m_input_tokens": 1200, "ephemeral_1h_input_tokens": 0}, "output_tokens": 1, "service_tier": "standard"}}}

event: content_block_start
data: {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}

event: content_block_delta
data: {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "The "}}

event: content_block_delta
data: {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "pendulum."}}

event: content_block_stop
data: {"type": "content_block_stop", "index": 0}

event: message_delta
data: {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 17}}

event: message_stop
data: {"type": "message_stop"}

');
insert into "response_bodies" values (3, X'28E1713D1DF7DFFC66CFAB7CBDC15A19780F183FD6B0F485F53F33EEE13C833C', 'event: message_start
data: {"type": "message_start", "message": {"type": "message", "id": "msg_01", "role": "assistant", "model": "claude-sonnet-4-5", "content": [], "stop_reason": null, "usage": {"input_tokens": 12, "cache_creation_input_tokens": 11000, "cache_read_input_tokens": 0, "cache_creation": {"ephemeral_5m_input_tokens": 11000, "ephemeral_1h_input_tokens": 0}, "output_tokens": 1, "service_tier": "standard"}}}

event: content_block_start
data: {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}

event: content_block_delta
data: {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "At midnight "}}

event: content_block_delta
data: {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "it rests too."}}

event: content_block_stop
data: {"type": "content_block_stop", "index": 0}

event: message_delta
data: {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 23}}

event: message_stop
data: {"type": "message_stop"}

');
insert into "response_bodies" values (4, X'2EB3528DAEAFF7924C1BD021499016B8017FF8C1FE2F95DDC6290F90FC44D344', '{
 "type": "message",
 "id": "msg_01",
 "role": "assistant",
 "model": "claude-sonnet-4-5",
 "content": [
  {
   "type": "text",
   "text": "Whale oil, once."
  }
 ],
 "stop_reason": "end_turn",
 "usage": {
  "input_tokens": 12,
  "cache_creation_input_tokens": 0,
  "cache_read_input_tokens": 0,
  "cache_creation": {
   "ephemeral_5m_input_tokens": 0,
   "ephemeral_1h_input_tokens": 0
  },
  "output_tokens": 8,
  "service_tier": "standard"
 }
}');
insert into "response_bodies" values (5, X'F32D50811797851A3F079C2F4167230C24DF75E9FF0AADB0D8C17C2D142545FF', '{"type": "message", "id": "msg_01", "role": "assistant", "model": "clock-model-0", "content": [{"type": "text", "text": "A mainspring."}], "stop_reason": "end_turn", "usage": {"input_tokens": 12, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0}, "output_tokens": 5, "service_tier": "standard"}}');
insert into "response_bodies" values (6, X'FE3AE65104C46A2E3A8FD267B19AE66BE8E64EF4BBB95F74772B93196BEB5967', '{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}');
insert into "response_bodies" values (7, X'6316AAB5B1425B1B92D2533EC71BD521E8EF3CF42BA1E7CBC197B29E38CE406B', X'00FF206E6F207465787420656974686572');
insert into "response_bodies" values (8, X'FA76D1F7594092F00C81EB8F6438FD5111C1E6FAF1AEF94C5FF1BA75B0273A1C', 'event: message_start
data: {"type": "message_start", "message": {"type": "message", "id": "msg_01", "role": "assistant", "model": "claude-sonnet-4-5", "content": [], "stop_reason": null, "usage": {"input_tokens": 12, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0}, "output_tokens": 1, "service_tier": "standard"}}}

event: content_block_start
data: {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}

event: content_block_delta
data: {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "One, two, three, "}}

event: content_block_delta
data: {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "four, five"}}

');
CREATE TABLE usage_cost (
            usage_id integer not null references usage(id),
            line integer not null,
            pass_index integer not null,
            model text,
            component text not null,
            quantity integer not null,
            prompt_tokens integer not null,
            rate_usd real,                  -- per million tokens, per thousand searches
            multiplier real,
            price_version text,
            cents real, speed text, unbilled_reason text, note text, estimated integer not null default 0,
            primary key (usage_id, line)
        ) without rowid
        ;
insert into "usage_cost" values (1, 0, 0, 'claude-sonnet-4-5', 'input', 12, 9012, 3.0, 1.0, 'taximeter prices 2026-11-21', 0.0036, NULL, NULL, NULL, 0);
insert into "usage_cost" values (1, 1, 0, 'claude-sonnet-4-5', 'cache_write_5m', 9000, 9012, 3.75, 1.0, 'taximeter prices 2026-11-21', 3.375, NULL, NULL, NULL, 0);
insert into "usage_cost" values (1, 2, 0, 'claude-sonnet-4-5', 'output', 31, 9012, 15.0, 1.0, 'taximeter prices 2026-11-21', 0.0465, NULL, NULL, NULL, 0);
insert into "usage_cost" values (2, 0, 0, 'claude-sonnet-4-5', 'input', 12, 10212, 3.0, 1.0, 'taximeter prices 2026-11-21', 0.0036, NULL, NULL, NULL, 0);
insert into "usage_cost" values (2, 1, 0, 'claude-sonnet-4-5', 'cache_read', 9000, 10212, 0.3, 1.0, 'taximeter prices 2026-11-21', 0.27, NULL, NULL, NULL, 0);
insert into "usage_cost" values (2, 2, 0, 'claude-sonnet-4-5', 'cache_write_5m', 1200, 10212, 3.75, 1.0, 'taximeter prices 2026-11-21', 0.45, NULL, NULL, NULL, 0);
insert into "usage_cost" values (2, 3, 0, 'claude-sonnet-4-5', 'output', 17, 10212, 15.0, 1.0, 'taximeter prices 2026-11-21', 0.0255, NULL, NULL, NULL, 0);
insert into "usage_cost" values (3, 0, 0, 'claude-sonnet-4-5', 'input', 12, 11012, 3.0, 1.0, 'taximeter prices 2026-11-21', 0.0036, NULL, NULL, NULL, 0);
insert into "usage_cost" values (3, 1, 0, 'claude-sonnet-4-5', 'cache_write_5m', 11000, 11012, 3.75, 1.0, 'taximeter prices 2026-11-21', 4.125, NULL, NULL, NULL, 0);
insert into "usage_cost" values (3, 2, 0, 'claude-sonnet-4-5', 'output', 23, 11012, 15.0, 1.0, 'taximeter prices 2026-11-21', 0.0345, NULL, NULL, NULL, 0);
insert into "usage_cost" values (4, 0, 0, 'claude-sonnet-4-5', 'input', 12, 12, 3.0, 1.0, 'taximeter prices 2026-11-21', 0.0036, NULL, NULL, NULL, 0);
insert into "usage_cost" values (4, 1, 0, 'claude-sonnet-4-5', 'output', 8, 12, 15.0, 1.0, 'taximeter prices 2026-11-21', 0.012, NULL, NULL, NULL, 0);
insert into "usage_cost" values (5, 0, 0, 'clock-model-0', 'input', 12, 12, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0);
insert into "usage_cost" values (5, 1, 0, 'clock-model-0', 'output', 5, 12, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0);
insert into "usage_cost" values (8, 0, 0, 'claude-sonnet-4-5', 'input', 12, 12, 3.0, 1.0, 'taximeter prices 2026-11-21', 0.0036, NULL, NULL, NULL, 0);
insert into "usage_cost" values (8, 1, 0, 'claude-sonnet-4-5', 'output', 7, 12, 15.0, 1.0, 'taximeter prices 2026-11-21', 0.0105, NULL, NULL, NULL, 1);
CREATE TABLE rejections (
            flush_id text not null,
            hour text not null,
            proxy_endpoint_id text not null,
            slug text not null,
            bucket text not null,
            count integer not null,
            primary key (flush_id, hour, proxy_endpoint_id, slug, bucket)
        ) without rowid
        ;
insert into "rejections" values ('some flush id', '2026-11-20T12', 'some proxy endpoint id', 'some slug', 'some bucket', 1);
CREATE VIEW rejections_hourly as
        select hour, proxy_endpoint_id, slug, bucket, sum(count) as count
        from rejections group by hour, proxy_endpoint_id, slug, bucket;
CREATE TABLE loose_segments (id integer primary key);
insert into "loose_segments" values (9999);
CREATE TABLE loose_pieces (id integer primary key);
insert into "loose_pieces" values (9999);
CREATE INDEX usage_model on usage (model, created_at);
CREATE INDEX usage_session on usage (session_id, agent_id, created_at) where session_id is not null;
CREATE INDEX usage_run on usage (run_id) where run_id is not null;
CREATE TABLE rate_limits (
            usage_id integer primary key references usage(id),
            requests_limit integer,
            requests_remaining integer,
            requests_reset_at text,
            tokens_limit integer,
            tokens_remaining integer,
            tokens_reset_at text,
            input_tokens_limit integer,
            input_tokens_remaining integer,
            input_tokens_reset_at text,
            output_tokens_limit integer,
            output_tokens_remaining integer,
            output_tokens_reset_at text,
            unified_status text,
            unified_claim text,
            unified_reset_at text,
            unified_5h_status text,
            unified_5h_utilization real,
            unified_5h_reset_at text,
            unified_7d_status text,
            unified_7d_utilization real,
            unified_7d_reset_at text,
            overage_status text,
            overage_utilization real,
            overage_in_use integer,
            retry_after_s real,
            other text                      -- JSON object: the rest of the family
        );
insert into "rate_limits" values (4, 1, 1, '2026-11-20T12:00:00.000Z', 1, 1, '2026-11-20T12:00:00.000Z', 1, 1, '2026-11-20T12:00:00.000Z', 1, 1, '2026-11-20T12:00:00.000Z', 'some unified status', 'some unified claim', '2026-11-20T12:00:00.000Z', 'some unified 5h status', 0.5, '2026-11-20T12:00:00.000Z', 'some unified 7d status', 0.5, '2026-11-20T12:00:00.000Z', 'some overage status', 0.5, 1, 0.5, '{}');
CREATE TABLE rate_limits_hourly (
            hour text not null,             -- YYYY-MM-DDTHH, UTC
            credential_hmac text not null,  -- '': none
            calls integer not null,
            rate_limited integer not null,  -- status 429
            overloaded integer not null,    -- status 529
            retries integer not null,
            retry_after_s real not null,
            requests_share real,            -- shares: the lowest that remained; null: never stated
            tokens_share real,
            input_tokens_share real,
            output_tokens_share real,
            unified_5h_share real,
            unified_7d_share real,
            primary key (hour, credential_hmac)
        ) without rowid
        ;
insert into "rate_limits_hourly" values ('2026-11-23T06', 'caec2fc18374e4d63eea7144984a8e87', 8, 0, 1, 0, 0.0, NULL, NULL, NULL, NULL, NULL, NULL);
CREATE TABLE backfills (name text primary key, next_id integer not null) without rowid;
CREATE TABLE output_sizes (
            model text primary key,
            calls integer not null,
            characters real not null,
            tokens real not null,
            thinking_characters real not null,
            thinking_tokens real not null
        ) without rowid
        ;
insert into "output_sizes" values ('claude-sonnet-4-5', 1, 32.0, 8.0, 0.0, 0.0);
insert into "output_sizes" values ('clock-model-0', 1, 29.0, 5.0, 0.0, 0.0);
CREATE TABLE usage_hourly (
            hour text not null,             -- YYYY-MM-DDTHH, UTC
            proxy_endpoint_id text not null,
            slug text not null,
            model text not null,            -- of the pass; '': not known, as in the next three
            client text not null default '',
            credential_hmac text not null default '',
            billing text not null default '',
            entries integer not null,       -- calls, with the model of the call
            errors integer not null,        -- neither complete nor ended by the client
            unpriced integer not null,      -- there is usage, but no known price
            maybe_billed integer not null,
            timed integer not null,         -- entries that have a duration
            input_tokens integer not null,  -- tokens: those that are billed
            output_tokens integer not null,
            cache_creation_input_tokens integer not null,
            cache_read_input_tokens integer not null,
            cache_write_1h_tokens integer not null default 0,
            web_search_requests integer not null default 0,
            unbilled_tokens integer not null default 0,
            unpriced_tokens integer not null default 0,
            cost_cents real not null,
            estimated_cents real not null,
            duration_ms real not null,
            primary key (hour, proxy_endpoint_id, slug, model, client, credential_hmac, billing)
        ) without rowid
        ;
insert into "usage_hourly" values ('2026-11-23T06', '01a2072b-b968-7a79-ba15-c2a3a3c9a4f5', 'default', '', 'claude-cli', 'caec2fc18374e4d63eea7144984a8e87', '', 2, 2, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0.0, 0.0, 3.2);
insert into "usage_hourly" values ('2026-11-23T06', '01a2072b-b968-7a79-ba15-c2a3a3c9a4f5', 'default', 'claude-sonnet-4-5', 'claude-cli', 'caec2fc18374e4d63eea7144984a8e87', '', 5, 1, 0, 0, 5, 60, 86, 21200, 9000, 0, 0, 0, 0, 8.36699999999999732835e+00, 0.0105, 3.17999999999999971578e+01);
insert into "usage_hourly" values ('2026-11-23T06', '01a2072b-b968-7a79-ba15-c2a3a3c9a4f5', 'default', 'clock-model-0', 'claude-cli', 'caec2fc18374e4d63eea7144984a8e87', '', 1, 0, 1, 0, 1, 12, 5, 0, 0, 0, 0, 0, 17, 0.0, 0.0, 4.8);
CREATE TABLE sessions (
            session_id text primary key,
            title text,                     -- first thing that was said; null: not known
            title_order text not null,      -- of the call that the title is from: the lowest wins
            started_at text not null,       -- of the first call
            ended_at text not null,         -- when the last response ended
            slug text not null,             -- of the call that ended last, as the client
            client text,
            peak_prompt_tokens integer not null,
            calls integer not null,
            errors integer not null,        -- neither complete nor ended by the client
            unpriced integer not null,      -- there is usage, but no known price
            input_tokens integer not null,
            output_tokens integer not null,
            cache_creation_input_tokens integer not null,
            cache_read_input_tokens integer not null,
            cost_cents real not null,
            estimated_cents real not null,
            value_cents real not null       -- of calls that a subscription covers
        , cache_breaks integer not null default 0) without rowid
        ;
insert into "sessions" values ('5f0c3a52-9a53-4d0e-8f9e-5a2b7c1d0e42', 'Why does the tower clock stop at “noon”?', '22026-11-23T06:50:44.023Z', '2026-11-23T06:50:44.023Z', '2026-11-23T06:50:44.497Z', 'default', 'claude-cli/2.1.0', 11012, 3, 0, 0, 36, 71, 21200, 9000, 8.33729999999999904503e+00, 0.0, 0.0, 1);
CREATE INDEX sessions_ended_at on sessions (ended_at, session_id);
CREATE TABLE usage_daily (
            day text not null, proxy_endpoint_id text not null, slug text not null, model text not null, client text not null, credential_hmac text not null, billing text not null,                         -- as in usage_hourly
            entries integer not null,
            errors integer not null,
            unpriced integer not null,
            maybe_billed integer not null,
            timed integer not null,
            input_tokens integer not null,
            output_tokens integer not null,
            cache_creation_input_tokens integer not null,
            cache_read_input_tokens integer not null,
            cache_write_1h_tokens integer not null,
            web_search_requests integer not null,
            unbilled_tokens integer not null,
            unpriced_tokens integer not null,
            cost_cents real not null,
            estimated_cents real not null,
            duration_ms real not null,
            primary key (day, proxy_endpoint_id, slug, model, client, credential_hmac, billing)
        ) without rowid
        ;
insert into "usage_daily" values ('2026-11-23', '01a2072b-b968-7a79-ba15-c2a3a3c9a4f5', 'default', '', 'claude-cli', 'caec2fc18374e4d63eea7144984a8e87', '', 2, 2, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0.0, 0.0, 3.2);
insert into "usage_daily" values ('2026-11-23', '01a2072b-b968-7a79-ba15-c2a3a3c9a4f5', 'default', 'claude-sonnet-4-5', 'claude-cli', 'caec2fc18374e4d63eea7144984a8e87', '', 5, 1, 0, 0, 5, 60, 86, 21200, 9000, 0, 0, 0, 0, 8.36699999999999732835e+00, 0.0105, 3.17999999999999971578e+01);
insert into "usage_daily" values ('2026-11-23', '01a2072b-b968-7a79-ba15-c2a3a3c9a4f5', 'default', 'clock-model-0', 'claude-cli', 'caec2fc18374e4d63eea7144984a8e87', '', 1, 0, 1, 0, 1, 12, 5, 0, 0, 0, 0, 0, 17, 0.0, 0.0, 4.8);
CREATE TABLE timings_daily (
            day text not null, proxy_endpoint_id text not null, slug text not null, model text not null, client text not null, credential_hmac text not null, billing text not null,
            ttfb_ms blob not null,
            duration_ms blob not null,
            proxy_overhead_ms blob not null,
            output_tokens_per_s blob not null,
            primary key (day, proxy_endpoint_id, slug, model, client, credential_hmac, billing)
        );
insert into "timings_daily" values ('2026-11-23', '01a2072b-b968-7a79-ba15-c2a3a3c9a4f5', 'default', 'clock-model-0', 'claude-cli', 'caec2fc18374e4d63eea7144984a8e87', '', X'4101000000', X'4201000000', X'2201000000', X'');
insert into "timings_daily" values ('2026-11-23', '01a2072b-b968-7a79-ba15-c2a3a3c9a4f5', 'default', '', 'claude-cli', 'caec2fc18374e4d63eea7144984a8e87', '', X'3302000000', X'3301000000000000000000000001000000', X'1D010000000000000000000000000000000000000001000000', X'');
insert into "timings_daily" values ('2026-11-23', '01a2072b-b968-7a79-ba15-c2a3a3c9a4f5', 'default', 'claude-sonnet-4-5', 'claude-cli', 'caec2fc18374e4d63eea7144984a8e87', '', X'36010000000000000000000000000000000000000000000000000000000000000000000000000000000100000000000000010000000000000000000000000000000100000000000000000000000000000000000000000000000000000001000000', X'370100000000000000000000000000000000000000000000000000000000000000000000000100000000000000000000000100000000000000000000000000000001000000000000000000000000000000000000000000000001000000', X'22020000000000000000000000010000000000000000000000010000000000000000000000000000000000000001000000', X'');
CREATE TABLE agents_daily (
            day text not null,
            session_id text not null,       -- '': none
            agent_id text not null,         -- '': the main one
            entries integer not null,
            errors integer not null,
            unpriced integer not null,
            maybe_billed integer not null,
            input_tokens integer not null,
            output_tokens integer not null,
            cache_creation_input_tokens integer not null,
            cache_read_input_tokens integer not null,
            cost_cents real not null,
            estimated_cents real not null,
            value_cents real not null,      -- of calls that a subscription covers
            primary key (day, session_id, agent_id)
        ) without rowid
        ;
insert into "agents_daily" values ('2026-11-23', '', '', 5, 3, 1, 0, 36, 20, 0, 0, 2.96999999999999972355e-02, 0.0105, 0.0);
insert into "agents_daily" values ('2026-11-23', '5f0c3a52-9a53-4d0e-8f9e-5a2b7c1d0e42', '', 3, 0, 0, 0, 36, 71, 21200, 9000, 8.33729999999999904503e+00, 0.0, 0.0);
CREATE TABLE predecessors (
            usage_id integer primary key references usage(id),
            previous_id integer not null    -- may be gone: ids are never used again
        , failed_tools text);
insert into "predecessors" values (2, 1, 'Bash');
insert into "predecessors" values (3, 2, NULL);
CREATE TABLE unnamed_calls (
            usage_id integer primary key references usage(id),
            first_id integer not null       -- of the session's first call, which may be gone
        );
insert into "unnamed_calls" values (4, 4);
CREATE INDEX unnamed_calls_first_id on unnamed_calls (first_id);
CREATE TABLE cache_breaks (
            usage_id integer primary key references usage(id),
            previous_entry_id text not null,
            method integer not null,
            prefix_tokens integer not null,
            read_tokens integer not null,
            tokens integer not null,
            gap_ms integer not null,
            extra_cost_cents real,          -- null: a price is not known
            estimated integer not null,
            found_by text not null,
            cause text not null,
            detail text not null,
            upstream_reason text,
            upstream_tokens integer
        );
insert into "cache_breaks" values (3, '01a2072b-db1b-7eac-918d-ae2ee39036ed', 1, 10200, 0, 10200, 113, 3.519, 0, 'chain', 'system', 'The cache broke at system block 1: “Be kind.” was added.', NULL, NULL);
CREATE VIEW usage_log as
        select
            u.id, u.entry_id, u.created_at, u.proxy_endpoint_id, u.slug, u.model,
            u.input_tokens, u.output_tokens,
            u.cache_creation_input_tokens, u.cache_read_input_tokens,
            u.cost_cents, u.duration_ms, u.status_code,
            (
                select case when q.segment_ids is null then q.whole else coalesce((
                    select group_concat(text, '') from (
                        select p.text as text
                        from json_each(q.segment_ids) as s
                        cross join segments as g on g.id = s.value
                        cross join json_each(g.piece_ids) as k
                        cross join pieces as p on p.id = k.value
                        order by s.key, k.key
                    )
                ), '') end
                from request_bodies as q where q.usage_id = u.id
            ) as request_body,
            (select r.body from response_bodies as r where r.usage_id = u.id) as response_body,
            u.streamed, u.outcome, u.usage_source, u.ttfb_ms, u.proxy_overhead_ms,
            u.request_model, u.upstream_request_id, u.session_id, u.agent_id, u.client,
            u.service_tier, u.request_bytes, u.response_bytes, u.error_type, u.credential_hmac,
            u.speed, u.inference_geo, u.retry_count,
            u.body_notes, u.path_query, u.api_version, u.betas,
            u.max_tokens, u.message_count, u.tool_count, u.run_id,
            u.stop_reason, u.refusal_category, u.thinking_tokens, u.cache_write_1h_tokens, u.web_search_requests, u.output_tokens_per_s, u.effort, u.thinking_budget, u.cache_ttl, u.title_text, u.parent_agent_id, u.request_class, u.prompt_id, u.client_hints, u.billing, u.overage, u.upstream_organization_id, u.workspace_id,
            u.estimated_cents,
            (select w.previous_id from predecessors as w where w.usage_id = u.id) as previous_id, coalesce(u.session_id, (select 'unnamed-' || n.first_id from unnamed_calls as n where n.usage_id = u.id)) as session
        from usage as u;
CREATE VIRTUAL TABLE search_text using fts5(tool_result, user, assistant, system, tool, content='', columnsize=0, tokenize='unicode61 remove_diacritics 2');
delete from "search_text_data";
insert into "search_text_data" values (1, X'0A0214021000');
insert into "search_text_data" values (10, X'000000010101010001010101');
insert into "search_text_data" values (137438953473, X'0000015D0430616E640C0601010203047377657202060103050706010305020174040601010808060101030104626173680606010202020165090601030903026C6C11060101030105636C6F636B04060101060601730206010304070601030402046F756E7412060101020104646F657304060101030103666577020601030707060103070102696E0206010306070601030601046B696E64090601030A01046D656E6402060103030706010303020769646E696768740C0601010401046E6F6F6E040601010901036F696C0D060101030106737072696E6710060101030203746F7004060101070305726F6B65731206010104010374686504060101040E06010103020369636B060601020302036F636B0704020303037765720406010105010577686963680D0601010203060101020106010102030179040601010202046F726473020601030807060103080103796F7502060103020706010302040A100D0B08090C0D0B0B0F0E0B100E0B0A0D0A0C0F0A090A160810');
delete from "search_text_idx";
insert into "search_text_idx" values (1, X'', 2);
delete from "search_text_config";
insert into "search_text_config" values ('automerge', 8);
insert into "search_text_config" values ('version', 4);
CREATE VIRTUAL TABLE search_response using fts5(tool_result, user, assistant, system, tool, content='', columnsize=0, tokenize='unicode61 remove_diacritics 2');
delete from "search_response_data";
insert into "search_response_data" values (1, X'060000140000');
insert into "search_response_data" values (10, X'000000010101010001010101');
insert into "search_response_data" values (137438953473, X'000000C902306105060102020201740306010202010466697665080601020602036F75720806010205010269740306010204010A6D61696E737072696E670506010203020769646E69676874030601020301036F696C040601020302036E636504060102040301650806010202010870656E64756C756D0106010203010601020301057265737473010601020402060102050103746865010601020201060102020303726565080601020402026F6F03060102060202776F080601020301057768616C6504060102020408080B0A09110E0A0A0814110F0A0909');
delete from "search_response_idx";
insert into "search_response_idx" values (1, X'', 2);
delete from "search_response_config";
insert into "search_response_config" values ('automerge', 8);
insert into "search_response_config" values ('version', 4);
CREATE TABLE search_pieces (
        piece_id integer primary key references pieces(id),
        usage_id integer not null,      -- the first call whose request has the piece
        recipe_id integer not null references search_recipes(id),
        copy_of integer                 -- what has the same texts; below zero: a response
    );
insert into "search_pieces" values (2, 1, 2, NULL);
insert into "search_pieces" values (4, 1, 5, NULL);
insert into "search_pieces" values (5, 2, 5, 4);
insert into "search_pieces" values (6, 2, 6, NULL);
insert into "search_pieces" values (7, 2, 3, NULL);
insert into "search_pieces" values (9, 3, 2, NULL);
insert into "search_pieces" values (11, 3, 1, -2);
insert into "search_pieces" values (12, 3, 4, NULL);
insert into "search_pieces" values (13, 4, 5, NULL);
insert into "search_pieces" values (16, 5, 5, NULL);
insert into "search_pieces" values (17, 6, 5, NULL);
insert into "search_pieces" values (18, 8, 5, NULL);
CREATE INDEX search_pieces_usage on search_pieces (usage_id);
CREATE INDEX search_pieces_copy on search_pieces (copy_of) where copy_of is not null;
CREATE TABLE search_recipes (id integer primary key, recipe text not null unique);
insert into "search_recipes" values (1, '{[||m|||||user|tool_result>assistant|');
insert into "search_recipes" values (2, '{|||||k|||>|');
insert into "search_recipes" values (3, '{[||m|||||assistant|tool_use>user|tool_result');
insert into "search_recipes" values (4, '{[||m|||||assistant|>user|');
insert into "search_recipes" values (5, '{[||m||||||>user|');
insert into "search_recipes" values (6, '{[||m|||||user|>assistant|tool_use');
CREATE TABLE search_responses (usage_id integer primary key references usage(id));
insert into "search_responses" values (1);
insert into "search_responses" values (2);
insert into "search_responses" values (3);
insert into "search_responses" values (4);
insert into "search_responses" values (5);
insert into "search_responses" values (8);
CREATE TABLE search_moves (piece_id integer primary key);
insert into "search_moves" values (1);
CREATE TABLE search_progress (indexed_to_id integer not null);
insert into "search_progress" values (8);
CREATE TABLE search_gaps (to_id integer primary key, from_id integer not null);
insert into "search_gaps" values (8, 8);
CREATE TABLE savings (
            session_id text not null,
            day text not null,              -- of the calls, UTC
            finding text not null,
            subject text not null,          -- '': none
            calls integer not null,
            tokens integer not null,
            cents real not null,            -- of tokens with a known price
            unpriced_tokens integer not null,
            top text not null,              -- JSON array of [usage id, cents], most expensive first
            primary key (session_id, day, finding, subject)
        ) without rowid
        ;
insert into "savings" values ('5f0c3a52-9a53-4d0e-8f9e-5a2b7c1d0e42', '2026-11-23', 'cache_break', 'system', 1, 10200, 3.519, 0, '[[3,3.519]]');
CREATE TABLE session_savings (
            session_id text primary key,
            method integer not null,        -- version of the rules
            computed_at text not null,
            calls integer not null,
            conversations integer not null,
            opened integer not null         -- conversations of which a body was read
        , cents real not null default 0, tokens integer not null default 0, last_day text) without rowid
        ;
insert into "session_savings" values ('5f0c3a52-9a53-4d0e-8f9e-5a2b7c1d0e42', 1, '2026-11-23T06:50:54.625Z', 3, 1, 1, 3.519, 10200, '2026-11-23');
CREATE TABLE savings_due (
            session_id text primary key,
            due_at real not null,           -- seconds since 1970
            changes integer not null        -- tells whether it changes while it is looked at
        ) without rowid
        ;
insert into "savings_due" values ('some session id', 1790000000.0, 1);
CREATE INDEX savings_due_due_at on savings_due (due_at);
CREATE TABLE savings_daily (
            day text not null,
            finding text not null,
            subject text not null,
            calls integer not null,
            tokens integer not null,
            cents real not null,
            unpriced_tokens integer not null,
            largest_session text not null,  -- of the day, with its cents
            largest_cents real not null,
            primary key (day, finding, subject)
        ) without rowid
        ;
insert into "savings_daily" values ('2026-11-23', 'cache_break', 'system', 1, 10200, 3.519, 0, '5f0c3a52-9a53-4d0e-8f9e-5a2b7c1d0e42', 3.519);
CREATE INDEX savings_day on savings (day, finding, subject);
CREATE INDEX session_savings_last_day on session_savings (last_day, cents, session_id, tokens);
CREATE VIEW usage_days as
        select day, proxy_endpoint_id, slug, model, client, credential_hmac, billing, entries, errors, unpriced, maybe_billed, timed, input_tokens, output_tokens, cache_creation_input_tokens, cache_read_input_tokens, cache_write_1h_tokens, web_search_requests, unbilled_tokens, unpriced_tokens, cost_cents, estimated_cents, duration_ms from usage_daily
        union all
        select substr(hour, 1, 10) as day, proxy_endpoint_id, slug, model, client, credential_hmac, billing, entries, errors, unpriced, maybe_billed, timed, input_tokens, output_tokens, cache_creation_input_tokens, cache_read_input_tokens, cache_write_1h_tokens, web_search_requests, unbilled_tokens, unpriced_tokens, cost_cents, estimated_cents, duration_ms from usage_hourly
        where hour < coalesce(
            -- The days up to this one are not in usage_daily yet: 20260131.
            (select printf('%04d-%02d-%02d~', next_id / 10000, next_id / 100 % 100, next_id % 100)
             from backfills where name = 'daily sums'),
            ''
        );
CREATE TABLE retention_texts (proxy_endpoint_id text primary key, texts_before text not null) without rowid;
insert into "retention_texts" values ('some proxy endpoint id', '2026-01-01T00:00:00.000Z');
CREATE TABLE erasures (id text primary key, entries integer not null) without rowid;
insert into "erasures" values ('some id', 1);
CREATE TABLE call_counters (
            slug text not null,
            model text not null,            -- '': none was named
            outcome text not null,
            calls integer not null,
            input_tokens integer not null,
            output_tokens integer not null,
            cache_creation_input_tokens integer not null,
            cache_read_input_tokens integer not null,
            cost_cents real not null,       -- as they were when they were recorded
            primary key (slug, model, outcome)
        ) without rowid
        ;
insert into "call_counters" values ('default', '', 'upstream_error', 2, 0, 0, 0, 0, 0.0);
insert into "call_counters" values ('default', 'claude-sonnet-4-5', 'complete', 4, 48, 79, 21200, 9000, 8.35289999999999821511e+00);
insert into "call_counters" values ('default', 'claude-sonnet-4-5', 'upstream_interrupted', 1, 12, 7, 0, 0, 0.0141);
insert into "call_counters" values ('default', 'clock-model-0', 'complete', 1, 12, 5, 0, 0, 0.0);
CREATE TABLE time_counters (
            slug text not null,
            measure text not null,          -- a column of usage
            up_to_s real not null,          -- upper bound of the bucket; infinity for the last one
            calls integer not null,
            seconds real not null,
            primary key (slug, measure, up_to_s)
        ) without rowid
        ;
insert into "time_counters" values ('default', 'duration_ms', 0.25, 8, 0.0398);
insert into "time_counters" values ('default', 'proxy_overhead_ms', 0.0005, 7, 2.29999999999999952746e-03);
insert into "time_counters" values ('default', 'proxy_overhead_ms', 0.001, 1, 0.0008);
insert into "time_counters" values ('default', 'ttfb_ms', 0.1, 8, 3.80000000000000059952e-02);
delete from sqlite_sequence;
insert into "sqlite_sequence" values ('usage', 8);
insert into "sqlite_sequence" values ('pieces', 18);
insert into "sqlite_sequence" values ('segments', 7);
commit;
