// Flows through a fat tree as SimGrid sees them: a peer of flux sim network --flows.
//
//     simgrid_peer P L K FILE    prints the time at which each flow of FILE ("from to size" a line) ends
//
// SimGrid's zone of a fat tree has the same static D-mod-k routes.  Its network model is set to plain
// max-min fairness: no latency, no window of TCP, no factors.
#include <cstdio>
#include <cstdlib>
#include <simgrid/kernel/routing/NetZoneImpl.hpp>
#include <simgrid/s4u.hpp>
#include <string>
#include <utility>
#include <vector>

namespace sg4 = simgrid::s4u;

// A flow of one unit per link and second is 1e6 bytes: SimGrid counts in whole bytes.
static const double unit = 1e6;

struct Flow {
    unsigned from, to;
    double size;
};

static std::pair<simgrid::kernel::routing::NetPoint *, simgrid::kernel::routing::NetPoint *>
make_host(sg4::NetZone *zone, const std::vector<unsigned long> & /*coord*/, unsigned long id)
{
    auto *host = zone->create_host("node" + std::to_string(id), 1e9)->seal();
    return {host->get_netpoint(), nullptr};
}

int main(int argc, char **argv)
{
    sg4::Engine engine(&argc, argv);
    if (argc != 5) {
        std::fprintf(stderr, "usage: simgrid_peer P L K FILE\n");
        return 2;
    }
    unsigned pods = std::atoi(argv[1]), leaves = std::atoi(argv[2]), k = std::atoi(argv[3]);
    sg4::Engine::set_config("network/model:CM02");
    sg4::Engine::set_config("network/crosstraffic:0");
    sg4::Engine::set_config("network/TCP-gamma:0");
    sg4::Engine::set_config("network/weight-S:0");
    sg4::Engine::set_config("network/bandwidth-factor:1");
    sg4::Engine::set_config("network/latency-factor:1");
    // Down from each level, up from each level, links to each parent.
    auto *zone = sg4::create_fatTree_zone("tree", nullptr, {3, {k, leaves, pods}, {1, k, k}, {1, 1, 1}},
                                          {make_host, {}, {}}, unit, 0,
                                          sg4::Link::SharingPolicy::SPLITDUPLEX);
    zone->seal();

    std::vector<Flow> flows;
    FILE *f = std::fopen(argv[4], "r");
    Flow flow;
    while (f && std::fscanf(f, "%u %u %lf", &flow.from, &flow.to, &flow.size) == 3)
        flows.push_back(flow);
    if (f)
        std::fclose(f);
    std::vector<double> end(flows.size());
    for (size_t i = 0; i < flows.size(); i++) {
        auto *from = engine.host_by_name("node" + std::to_string(flows[i].from));
        auto *to = engine.host_by_name("node" + std::to_string(flows[i].to));
        sg4::Actor::create("flow", from, [&end, &flows, i, from, to] {
            sg4::Comm::sendto(from, to, (uint64_t)(flows[i].size * unit));
            end[i] = sg4::Engine::get_clock();
        });
    }
    engine.run();
    for (double at : end)
        std::printf("%.6f\n", at);
    return 0;
}
